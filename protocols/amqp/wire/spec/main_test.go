package main

import (
	"bytes"
	"os"
	"testing"
)

func TestGeneratedCodecIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../spec_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("spec_gen.go is not what the table of methods makes; run: go generate ./protocols/amqp/wire")
	}
}

func TestNumbersAreUniqueAndAscend(t *testing.T) {
	t.Parallel()
	seen := map[uint32]string{}
	for _, c := range classes {
		last := uint16(0)
		for _, m := range c.methods {
			id := uint32(c.id)<<16 | uint32(m.id)
			if other, twice := seen[id]; twice {
				t.Errorf("%s.%s has the number of %s", c.name, m.name, other)
			}
			seen[id] = c.name + "." + m.name
			if m.id <= last {
				t.Errorf("%s.%s is out of order", c.name, m.name)
			}
			last = m.id
		}
	}
}
