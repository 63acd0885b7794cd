package main

import (
	"strings"
	"testing"
)

func TestDemoAddsUp(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	ok, err := run(t.Context(), &out, options{messages: 1000})
	if err != nil || !ok {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestDemoTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := &story{out: &out}
	s.number("messages", 4, 5)
	s.check("they are there", true)
	if s.end() || !strings.Contains(out.String(), "✗ messages") || !strings.Contains(out.String(), "1 of 2 checks failed") {
		t.Errorf("it said:\n%s", out.String())
	}
}

func TestDemoRefusesWrongOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []options{{messages: 0}, {messages: 150}, {messages: 1000, amqp: "127.0.0.1:5672"}} {
		if o.valid() == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
