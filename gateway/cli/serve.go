package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"polylog/gateway"
)

func serveCommand() Command {
	return Command{
		Name:    "serve",
		Summary: "run the broker",
		Usage: `polylog serve [flags]

Runs the broker until it is told to stop. It needs no configuration: by default the log is in ./data, AMQP is served on port 5672 to
everybody (the user guest with the password guest may log in from this machine only), Kafka on port 9092 and metrics and health on port
15672 to this machine.

'polylog config -example' prints every key of the configuration file. The environment variable POLYLOG_AMQP_LISTEN sets the key
amqp.listen, and so on; --set amqp.listen=... does too, and a flag of its own if there is one. Flags win over variables, variables over
the file.

SIGTERM and SIGINT end it in order: clients are told, what is under way is ended, the log is closed. Another one, half a second or more
later, ends it at once. Neither that nor a kill loses what was confirmed.

The exit status is 0 after an orderly end, 1 if the broker could not start or its disk failed, 2 if the configuration is wrong.`,
		Run: runServe,
	}
}

func runServe(ctx context.Context, env Env, args []string) int {
	fs := env.Flags()
	var s settings
	s.addTo(fs)
	addresses := fs.String("addresses", "", "write the addresses that are served to `FILE`, as JSON, once clients can connect; it is removed at the end")
	if code, ok := env.Parse(fs, args); !ok {
		return code
	}
	if fs.NArg() > 0 {
		return env.Misused("takes no arguments, got %q", fs.Arg(0))
	}
	c, code := s.load(env)
	if c == nil {
		return code
	}
	log, err := gateway.NewLogger(c.Log, env.Stderr)
	if err != nil {
		return env.Failed(err)
	}
	// When nobody reads the log any more, the broker goes on without one. By default a write to a pipe without a reader would end the process.
	signal.Ignore(syscall.SIGPIPE)
	ctx, hurry, release := untilSignals(ctx)
	defer release()
	end := make(chan error, 1)
	go func() {
		end <- gateway.Serve(ctx, gateway.Options{Config: c, Version: buildVersion(env.Version), Log: log, AddressesFile: *addresses})
	}()
	select {
	case err = <-end:
	case <-hurry:
		err = errors.New("ended at once, as a second signal asked")
	}
	if err != nil {
		log.Error(err.Error())
		return ExitFailed
	}
	return ExitOK
}

// sameSignal is how long after a signal another one is taken for the same: a terminal and the program that started this one may both pass it on.
const sameSignal = 500 * time.Millisecond

// untilSignals returns a context that the first SIGTERM or SIGINT ends, and a channel that the second one closes.
func untilSignals(parent context.Context) (ctx context.Context, second <-chan struct{}, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals, hurry := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		var first time.Time
		for sig := range signals {
			switch {
			case first.IsZero():
				first = time.Now()
				cancel(fmt.Errorf("the signal %q", sig))
			case time.Since(first) >= sameSignal:
				close(hurry)
				return
			}
		}
	}()
	return ctx, hurry, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}
