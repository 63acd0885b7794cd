package main

import (
	"fmt"
	"io"
)

// story prints what happens, and counts what was not as it should be.
type story struct {
	out           io.Writer
	checks, wrong int
	steps         int
}

func (s *story) headline(text string) {
	s.steps++
	fmt.Fprintf(s.out, "\n%d. %s\n", s.steps, text)
}

// fact prints something that is not checked.
func (s *story) fact(name string, value any) { fmt.Fprintf(s.out, "     %-58s %v\n", name, value) }

// number prints a number, and what it should have been if it is another.
func (s *story) number(name string, got, want int64) {
	s.checks++
	if got == want {
		fmt.Fprintf(s.out, "   ✓ %-58s %d\n", name, got)
		return
	}
	s.wrong++
	fmt.Fprintf(s.out, "   ✗ %-58s %d, and it should be %d\n", name, got, want)
}

// check prints a statement that should be true.
func (s *story) check(what string, holds bool) {
	s.checks++
	mark := "✓"
	if !holds {
		s.wrong++
		mark = "✗"
	}
	fmt.Fprintf(s.out, "   %s %s\n", mark, what)
}

// end prints the sum and reports whether all was right.
func (s *story) end() bool {
	if s.wrong > 0 {
		fmt.Fprintf(s.out, "\n%d of %d checks failed.\n", s.wrong, s.checks)
		return false
	}
	fmt.Fprintf(s.out, "\nAll %d checks passed: every number adds up.\n", s.checks)
	return true
}
