package amqp

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"polylog/logstore"
	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/exchange"
	"polylog/viewlayer/message"
	"polylog/viewlayer/queue"
	"polylog/viewlayer/topic"
)

// Every error that a view defines has its reply code here.
func TestEveryErrorOfTheViewsHasItsReplyCode(t *testing.T) {
	t.Parallel()
	codes := map[string]struct {
		err  error
		code wire.Code
	}{
		"topic.UnknownError":          {&topic.UnknownError{Namespace: "/", Name: "q"}, wire.NotFound},
		"topic.UnknownIDError":        {&topic.UnknownIDError{}, wire.InternalError}, // AMQP names no topic by its id
		"topic.ExistsError":           {&topic.ExistsError{Topic: &topic.Topic{}}, wire.InternalError},
		"topic.PartitionsError":       {&topic.PartitionsError{}, wire.InternalError},
		"topic.ConfigError":           {&topic.ConfigError{}, wire.PreconditionFailed},
		"topic.NameError":             {&topic.NameError{Name: "amq.q"}, wire.AccessRefused},
		"exchange.UnknownError":       {&exchange.UnknownError{}, wire.NotFound},
		"exchange.InternalTopicError": {&exchange.InternalTopicError{}, wire.AccessRefused},
		"exchange.FullError":          {&exchange.FullError{}, wire.PreconditionFailed},
		"queue.LockedError":           {&queue.LockedError{}, wire.ResourceLocked},
		"queue.InequivalentError":     {&queue.InequivalentError{}, wire.PreconditionFailed},
		"queue.ArgumentError":         {&queue.ArgumentError{}, wire.PreconditionFailed},
		"queue.InternalError":         {&queue.InternalError{}, wire.AccessRefused},
		"queue.InUseError":            {&queue.InUseError{}, wire.PreconditionFailed},
		"queue.NotEmptyError":         {&queue.NotEmptyError{}, wire.PreconditionFailed},
		"queue.ExclusiveError":        {&queue.ExclusiveError{}, wire.AccessRefused},
		"queue.GoneError":             {&queue.GoneError{}, wire.NotFound},
		"message.PropertiesError":     {&message.PropertiesError{}, wire.SyntaxErrorCode},
		"message.TableError":          {&message.TableError{}, wire.SyntaxErrorCode},
		"message.TooLargeError":       {&message.TooLargeError{}, wire.PreconditionFailed},
	}
	for name, c := range codes {
		for _, err := range []error{c.err, fmt.Errorf("while doing something: %w", c.err)} {
			if e := explain(err); e.code != c.code || e.text == "" {
				t.Errorf("%s becomes %v", name, e)
			}
		}
	}
	for _, view := range []string{"topic", "exchange", "queue", "message"} {
		files, err := filepath.Glob("../../viewlayer/" + view + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok || g.Tok != token.TYPE {
					continue
				}
				for _, s := range g.Specs {
					name := s.(*ast.TypeSpec).Name.Name
					if ast.IsExported(name) && strings.HasSuffix(name, "Error") && codes[view+"."+name].err == nil {
						t.Errorf("%s.%s has no line here", view, name)
					}
				}
			}
		}
	}
	for err, code := range map[error]wire.Code{
		&logstore.DiskFullError{Err: errors.New("x")}: wire.ResourceError, logstore.ErrClosed: wire.InternalError, errors.New("anything"): wire.InternalError,
		&logstore.UnavailableError{Err: errors.New("x")}: wire.ConnectionForced, &logstore.UnknownOutcomeError{Err: errors.New("x")}: wire.ConnectionForced,
		&logstore.UnknownOutcomeError{Err: logstore.ErrClosed}: wire.InternalError,
		&wire.FrameError{}: wire.FrameErrorCode, &wire.SyntaxError{}: wire.SyntaxErrorCode, raise(wire.NotAllowed, "x"): wire.NotAllowed,
	} {
		if e := explain(err); e.code != code {
			t.Errorf("%v becomes %v", err, e)
		}
	}
}
