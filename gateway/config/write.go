package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// Write prints the configuration as YAML that Load reads back. Passwords are printed as their hashes, with which the same users log in: what is printed may be shown.
func (c *Config) Write(out io.Writer) error {
	w := &writer{hidePasswords: true}
	w.config(c)
	if w.err != nil {
		return w.err
	}
	_, err := w.b.WriteTo(out)
	return err
}

// WriteExample prints the defaults as YAML with a comment above each key.
func WriteExample(out io.Writer) error {
	w := &writer{comments: true}
	w.b.WriteString(exampleHead)
	w.config(Default())
	_, err := w.b.WriteTo(out)
	return err
}

const exampleHead = `# The configuration of Polylog: every key there is, with its default. A broker needs no configuration file; write into yours only
# what is to be different. An environment variable overrides a key (POLYLOG_AMQP_LISTEN overrides amqp.listen), a flag overrides both.
#
# Sizes are whole numbers of B, KiB, MiB, GiB, TiB, kB, MB, GB or TB. Durations are numbers of ms, s, m, h or d.
#
# Printed by: polylog config -example

`

// writer prints YAML.
type writer struct {
	b             bytes.Buffer
	comments      bool
	hidePasswords bool
	err           error
}

func (w *writer) line(indent int, format string, args ...any) {
	fmt.Fprintf(&w.b, "%*s"+format+"\n", append([]any{indent, ""}, args...)...)
}

func (w *writer) config(c *Config) {
	section := ""
	for i, s := range c.settings() {
		indent, name := 0, s.key
		in, rest, inSection := strings.Cut(s.key, ".")
		if inSection {
			indent, name = 2, rest
		} else {
			in = ""
		}
		begins := in != section || !inSection
		if begins && i > 0 && (w.comments || inSection || section != "") {
			w.b.WriteByte('\n')
		}
		if in != section && inSection {
			w.line(0, "%s:", in)
		}
		section = in
		if w.comments {
			w.comment(indent, s)
		}
		v, structured := s.to.(nodeValue)
		if !structured {
			w.line(indent, "%s: %s", name, scalar(s.to.text()))
			continue
		}
		fmt.Fprintf(&w.b, "%*s%s:", indent, "", name)
		v.write(w, indent+2)
	}
}

// commentWidth is how long a line of comment gets.
const commentWidth = 110

func (w *writer) comment(indent int, s setting) {
	line := ""
	for _, word := range strings.Fields(s.help) {
		if line != "" && len(line)+1+len(word) > commentWidth {
			w.line(indent, "#%s", line)
			line = ""
		}
		line += " " + word
	}
	w.line(indent, "#%s", line)
	if _, structured := s.to.(nodeValue); !structured {
		w.line(indent, "# Allowed: %s.", s.to.allowed())
	}
}

func (w *writer) list(indent int, list []string) {
	if len(list) == 0 {
		w.b.WriteString(" []\n")
		return
	}
	w.b.WriteByte('\n')
	for _, e := range list {
		w.line(indent, "- %s", scalar(e))
	}
}

// hash returns what may be shown instead of a password.
func (w *writer) hash(password string) string {
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("hiding a password: %w", err)
	}
	return string(h)
}

// plain matches words that mean themselves in YAML, in every version of it.
var (
	plain = regexp.MustCompile(`^(?:[A-Za-z/][A-Za-z0-9_./-]*|[0-9]+(?:[A-Za-z][A-Za-z0-9]*)?|[0-9.]+:[0-9]+)$`)
	magic = regexp.MustCompile(`(?i)^(?:y|n|yes|no|on|off|null|true|false)$|^[0-9]+[eExXoObB][0-9]*$|^[0-9]+:[0-5]?[0-9]$`)
)

// scalar writes one value. In quotes it is written as JSON, which YAML contains.
func scalar(s string) string {
	if s == "true" || s == "false" || plain.MatchString(s) && !magic.MatchString(s) {
		return s
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string can be encoded
	}
	return strings.TrimSpace(b.String())
}

// flow writes a list in one line.
func flow(list []string) string {
	words := make([]string, len(list))
	for i, e := range list {
		words[i] = scalar(e)
	}
	return "[" + strings.Join(words, ", ") + "]"
}
