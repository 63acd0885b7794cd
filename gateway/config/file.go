package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"

	"polylog/gateway/spelling"
)

// parseYAML returns the one document in the text, or nil if there is none.
func parseYAML(text []byte) (*yaml.Node, error) {
	l, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var first *yaml.Node
	for {
		var doc yaml.Node
		err := l.Load(&doc)
		if errors.Is(err, io.EOF) {
			return first, nil
		}
		if err != nil {
			return nil, err
		}
		if first != nil {
			return nil, &yaml.LoadError{Message: "a second document begins; there may be one", Mark: yaml.Mark{Line: doc.Line}}
		}
		n := &doc
		for n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
			n = n.Content[0]
		}
		if n.Kind != yaml.DocumentNode && !isNull(n) {
			first = n
		}
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// at names a place in a file as compilers do.
func at(file string, line int) string {
	if file == "" {
		return fmt.Sprintf("line %d", line)
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// readFile takes the keys of the file.
func (l *loader) readFile(file string, text []byte) {
	doc, err := parseYAML(text)
	if err != nil {
		if e, is := errors.AsType[*yaml.LoadError](err); is {
			what := e.Message
			if e.ContextMsg != "" {
				what += " " + e.ContextMsg
			}
			l.wrong("%s: not valid YAML: %s", at(file, max(e.Mark.Line, 1)), what)
			return
		}
		l.wrong("%s: %w", file, err)
		return
	}
	if doc != nil {
		l.readSection(file, "", doc)
	}
}

// readSection takes the keys that begin with the prefix: "" or a section and a dot.
func (l *loader) readSection(file, prefix string, n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		what := "the file"
		if prefix != "" {
			what = strings.TrimSuffix(prefix, ".")
		}
		l.wrong("%s: %s must be keys with values, like %q", at(file, n.Line), what, l.firstBelow(prefix)+": ...")
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, v := n.Content[i], n.Content[i+1]
		if v.Kind == yaml.AliasNode {
			v = v.Alias
		}
		key, where := prefix+name.Value, at(file, name.Line)
		if line, twice := seen[name.Value]; twice {
			l.wrong("%s: %s is set a second time, the first time is in line %d", where, key, line)
			continue
		}
		seen[name.Value] = name.Line
		if s, known := find(l.rows, key); known {
			l.setNode(s, v, file, where)
			continue
		}
		if l.isSection(key + ".") {
			if !isNull(v) { // a section of which every key is commented out
				l.readSection(file, key+".", v)
			}
			continue
		}
		l.wrong("%s: unknown key %q%s", where, key, l.hintAt(prefix, name.Value))
	}
}

// setNode gives a key its value of the file.
func (l *loader) setNode(s setting, n *yaml.Node, file, where string) {
	if v, structured := s.to.(nodeValue); structured {
		l.took(s, v.parseNode(n, file), "what is there", where)
		return
	}
	switch {
	case isNull(n):
		l.took(s, errors.New("to take the default remove the line"), "without a value", where)
	case n.Kind != yaml.ScalarNode:
		l.took(s, errors.New("it is one value"), "a list or several keys", where)
	default:
		l.took(s, s.to.parse(n.Value), fmt.Sprintf("%q", n.Value), where)
	}
}

func (l *loader) isSection(prefix string) bool { return l.firstBelow(prefix) != "" }

// firstBelow returns the last word of the first key that begins with the prefix.
func (l *loader) firstBelow(prefix string) string {
	for _, s := range l.rows {
		if rest, below := strings.CutPrefix(s.key, prefix); below {
			return rest
		}
	}
	return ""
}

// hintAt names what may stand under the prefix and is nearest to what stands there; else the whole key that is nearest, for one in the wrong section.
func (l *loader) hintAt(prefix, typed string) string {
	var here []string
	for _, s := range l.rows {
		if rest, below := strings.CutPrefix(s.key, prefix); below {
			word, _, _ := strings.Cut(rest, ".")
			here = append(here, word)
		}
	}
	if near := spelling.Nearest(typed, here); near != "" {
		return fmt.Sprintf(", did you mean %q?", prefix+near)
	}
	for _, s := range l.rows { // the right word in the wrong section
		if _, last, found := strings.Cut(s.key, "."); found && last == typed {
			return fmt.Sprintf(", did you mean %q?", s.key)
		}
	}
	return hint(prefix+typed, keys(l.rows))
}
