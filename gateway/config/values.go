package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"polylog/logstore"
)

// value is the field behind a key: how it is read from one word of text, written, and what it may be.
type value interface {
	parse(text string) error
	text() string
	// allowed says which values there are: "1 to 65535".
	allowed() string
	// check says why the value is not allowed, if it is not.
	check() error
}

// nodeValue is a value that is more than one word: it is read from YAML, in the environment too.
type nodeValue interface {
	value
	parseNode(n *yaml.Node, file string) error
	write(w *writer, indent int)
}

var errNotAllowed = fmt.Errorf("out of range")

type text struct {
	to   *string
	what string
}

func (v text) parse(s string) error { *v.to = s; return nil }
func (v text) text() string         { return *v.to }
func (v text) allowed() string      { return v.what }
func (v text) check() error {
	if *v.to == "" {
		return fmt.Errorf("empty")
	}
	if i := strings.IndexFunc(*v.to, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
		return fmt.Errorf("has a control character at byte %d", i)
	}
	return nil
}

type choice struct {
	to *string
	of []string
}

func (v choice) parse(s string) error { *v.to = s; return nil }
func (v choice) text() string         { return *v.to }
func (v choice) allowed() string      { return strings.Join(v.of, ", ") }
func (v choice) check() error {
	if !slices.Contains(v.of, *v.to) {
		return errNotAllowed
	}
	return nil
}

type number struct {
	to       *int
	min, max int
}

func (v number) parse(s string) error {
	n, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
	if err != nil {
		return fmt.Errorf("not a whole number")
	}
	*v.to = n
	return nil
}
func (v number) text() string    { return strconv.Itoa(*v.to) }
func (v number) allowed() string { return fmt.Sprintf("%d to %d", v.min, v.max) }
func (v number) check() error    { return within(*v.to, v.min, v.max) }

type size struct {
	to       *int64
	min, max int64
	zero     string // what 0 means; empty if 0 is nothing special
}

func (v size) parse(s string) error {
	n, err := ParseSize(s)
	if err == nil {
		*v.to = n
	}
	return err
}
func (v size) text() string { return FormatSize(*v.to) }
func (v size) allowed() string {
	return orZero(FormatSize(v.min)+" to "+FormatSize(v.max), v.zero)
}
func (v size) check() error {
	if v.zero != "" && *v.to == 0 {
		return nil
	}
	return within(*v.to, v.min, v.max)
}

type duration struct {
	to       *time.Duration
	min, max time.Duration
	step     time.Duration // it is a multiple of; 0: of anything
	zero     string
}

func (v duration) parse(s string) error {
	d, err := ParseDuration(s)
	if err == nil {
		*v.to = d
	}
	return err
}
func (v duration) text() string { return FormatDuration(*v.to) }
func (v duration) allowed() string {
	span := FormatDuration(v.min) + " to " + FormatDuration(v.max)
	if v.step > 0 {
		span += " in steps of " + FormatDuration(v.step)
	}
	return orZero(span, v.zero)
}
func (v duration) check() error {
	if v.step > 0 && *v.to%v.step != 0 {
		return errNotAllowed
	}
	if v.zero != "" && *v.to == 0 {
		return nil
	}
	return within(*v.to, v.min, v.max)
}

func orZero(span, zero string) string {
	if zero == "" {
		return span
	}
	return span + ", or 0: " + zero
}

func within[T int | int64 | time.Duration](v, low, high T) error {
	if v < low || v > high {
		return errNotAllowed
	}
	return nil
}

type yes struct{ to *bool }

func (v yes) parse(s string) error {
	switch s {
	case "true":
		*v.to = true
	case "false":
		*v.to = false
	default:
		return fmt.Errorf("neither true nor false")
	}
	return nil
}
func (v yes) text() string    { return strconv.FormatBool(*v.to) }
func (v yes) allowed() string { return "true, false" }
func (v yes) check() error    { return nil }

type syncPolicy struct{ to *logstore.SyncPolicy }

func (v syncPolicy) parse(s string) error {
	p, err := logstore.ParseSyncPolicy(s)
	if err != nil {
		return errNotAllowed
	}
	*v.to = p
	return nil
}
func (v syncPolicy) text() string    { return v.to.String() }
func (v syncPolicy) allowed() string { return "always, interval, os" }
func (v syncPolicy) check() error    { return nil }

// address is where a listener listens. Port 0 lets the system choose.
type address struct{ to *string }

func (v address) parse(s string) error { *v.to = s; return nil }
func (v address) text() string         { return *v.to }
func (v address) allowed() string      { return "HOST:PORT, :PORT for all addresses, or \"\": off" }
func (v address) check() error {
	if *v.to == "" {
		return nil
	}
	return checkHostPort(*v.to, 0)
}

// advertised is the address that is told to clients.
type advertised struct{ to *string }

func (v advertised) parse(s string) error { *v.to = s; return nil }
func (v advertised) text() string         { return *v.to }
func (v advertised) allowed() string {
	return "HOST:PORT, or \"\": the address that the client has connected to"
}
func (v advertised) check() error {
	if *v.to == "" {
		return nil
	}
	if err := checkHostPort(*v.to, 1); err != nil {
		return err
	}
	if host, _, _ := net.SplitHostPort(*v.to); host == "" {
		return fmt.Errorf("without a host")
	}
	return nil
}

func checkHostPort(addr string, lowest int) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("not HOST:PORT")
	}
	if strings.ContainsAny(host, " /\t") {
		return fmt.Errorf("not a host: %q", host)
	}
	if n, err := strconv.Atoi(port); err != nil || n < lowest || n > 65535 {
		return fmt.Errorf("the port is %q, allowed are %d to 65535", port, lowest)
	}
	return nil
}

// unserved is an address of something that this version does not have.
type unserved struct {
	to   *string
	what string
}

func (v unserved) parse(s string) error { *v.to = s; return nil }
func (v unserved) text() string         { return *v.to }
func (v unserved) allowed() string      { return "\"\"" }
func (v unserved) check() error {
	if *v.to != "" {
		return fmt.Errorf("%s is not served yet", v.what)
	}
	return nil
}

// optional is a word that may be empty.
type optional struct {
	to   *string
	what string
}

func (v optional) parse(s string) error { *v.to = s; return nil }
func (v optional) text() string         { return *v.to }
func (v optional) allowed() string      { return v.what }
func (v optional) check() error         { return nil }

// secret is a word that is not shown.
type secret struct{ to *string }

func (v secret) parse(s string) error { *v.to = s; return nil }
func (v secret) text() string {
	if *v.to == "" {
		return ""
	}
	return notShown
}
func (v secret) allowed() string { return "any text" }
func (v secret) check() error {
	if *v.to == notShown {
		return fmt.Errorf("what is printed in its place; write the secret itself")
	}
	return nil
}

const notShown = "(not shown)"

// words is a list in one word, with commas between.
type words struct {
	to   *[]string
	what string
}

func (v words) parse(s string) error {
	*v.to = nil
	for w := range strings.SplitSeq(s, ",") {
		if w = strings.TrimSpace(w); w != "" {
			*v.to = append(*v.to, w)
		}
	}
	return nil
}
func (v words) text() string    { return strings.Join(*v.to, ",") }
func (v words) allowed() string { return v.what }
func (v words) check() error    { return nil }
