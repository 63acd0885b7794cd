package config

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"
	"golang.org/x/crypto/bcrypt"

	"polylog/gateway/spelling"
)

// vhosts is a list of names.
type vhosts struct{ to *[]string }

func (v vhosts) parse(string) error { panic("vhosts are read from YAML") }
func (v vhosts) text() string       { return flow(*v.to) }
func (v vhosts) allowed() string    { return "a list of names, at least one" }
func (v vhosts) check() error {
	if len(*v.to) == 0 {
		return errors.New("empty")
	}
	return checkNames(*v.to)
}

func (v vhosts) parseNode(n *yaml.Node, file string) (err error) {
	*v.to, err = names(n, file)
	return err
}

func (v vhosts) write(w *writer, indent int) { w.list(indent, *v.to) }

// names reads a list of words.
func names(n *yaml.Node, file string) ([]string, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("%s: not a list", at(file, n.Line))
	}
	list := []string{}
	for _, e := range n.Content {
		if e.Kind != yaml.ScalarNode || isNull(e) {
			return nil, fmt.Errorf("%s: not a name", at(file, e.Line))
		}
		list = append(list, e.Value)
	}
	return list, nil
}

func checkNames(list []string) error {
	for i, name := range list {
		switch {
		case name == "" || len(name) > 255: // a short string of AMQP, in which vhosts and users travel
			return fmt.Errorf("%q has %d bytes, allowed are 1 to 255", name, len(name))
		case slices.Contains(list[:i], name):
			return fmt.Errorf("%q is there twice", name)
		}
	}
	return nil
}

// passwordMax is what bcrypt takes, bytes.
const passwordMax = 72

// users is the list of those who may log in.
type users struct{ to *[]User }

func (v users) parse(string) error { panic("users are read from YAML") }
func (v users) text() string       { return fmt.Sprintf("%d users", len(*v.to)) }
func (v users) allowed() string {
	return "a list of users with name, password or password_hash, vhosts, loopback_only"
}

func (v users) check() error {
	list := make([]string, len(*v.to))
	for i, u := range *v.to {
		list[i] = u.Name
		switch {
		case (u.Password == "") == (u.PasswordHash == ""):
			return fmt.Errorf("the user %q must have one of password and password_hash", u.Name)
		case len(u.Password) > passwordMax:
			return fmt.Errorf("the password of the user %q has %d bytes, at most %d are allowed", u.Name, len(u.Password), passwordMax)
		case u.PasswordHash != "":
			if _, err := bcrypt.Cost([]byte(u.PasswordHash)); err != nil {
				return fmt.Errorf("password_hash of the user %q is no bcrypt hash like $2a$10$... (%w)", u.Name, err)
			}
		}
		if err := checkNames(u.Vhosts); err != nil {
			return fmt.Errorf("vhosts of the user %q: %w", u.Name, err)
		}
	}
	return checkNames(list)
}

func (v users) parseNode(n *yaml.Node, file string) error {
	if n.Kind != yaml.SequenceNode {
		return fmt.Errorf("%s: not a list", at(file, n.Line))
	}
	list := []User{}
	for _, e := range n.Content {
		u, err := parseUser(e, file)
		if err != nil {
			return err
		}
		list = append(list, u)
	}
	*v.to = list
	return nil
}

// parseUser reads one user. What is not given is as for a user of that name by default.
func parseUser(n *yaml.Node, file string) (User, error) {
	u := User{Vhosts: []string{AnyVhost}}
	if n.Kind != yaml.MappingNode {
		return u, fmt.Errorf("%s: a user has name, password and so on", at(file, n.Line))
	}
	hasLoopback, seen := false, map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		word := ""
		switch {
		case seen[k.Value]:
			return u, fmt.Errorf("%s: %s is set a second time", at(file, k.Line), k.Value)
		case k.Value == "vhosts":
			list, err := names(v, file)
			if err != nil {
				return u, fmt.Errorf("vhosts: %w", err)
			}
			u.Vhosts = list
		case v.Kind != yaml.ScalarNode || isNull(v):
			return u, fmt.Errorf("%s: %s needs one value", at(file, k.Line), k.Value)
		default:
			word = v.Value
		}
		seen[k.Value] = true
		switch k.Value {
		case "vhosts":
		case "name":
			u.Name = word
		case "password":
			u.Password = word
		case "password_hash":
			u.PasswordHash = word
		case "loopback_only":
			hasLoopback = true
			if err := (yes{&u.LoopbackOnly}).parse(word); err != nil {
				return u, fmt.Errorf("%s: loopback_only is %q: %w", at(file, k.Line), word, err)
			}
		default:
			near := spelling.Nearest(k.Value, []string{"name", "password", "password_hash", "vhosts", "loopback_only"})
			if near == "" {
				return u, fmt.Errorf("%s: unknown key %q of a user", at(file, k.Line), k.Value)
			}
			return u, fmt.Errorf("%s: unknown key %q of a user, did you mean %q?", at(file, k.Line), k.Value, near)
		}
	}
	if !hasLoopback {
		u.LoopbackOnly = u.Name == GuestUser
	}
	return u, nil
}

func (v users) write(w *writer, indent int) {
	if len(*v.to) == 0 {
		w.b.WriteString(" []\n")
		return
	}
	w.b.WriteByte('\n')
	for _, u := range *v.to {
		w.line(indent, "- name: %s", scalar(u.Name))
		switch {
		case u.PasswordHash != "":
			w.line(indent+2, "password_hash: %s", scalar(u.PasswordHash))
		case w.hidePasswords:
			w.line(indent+2, "password_hash: %s", scalar(w.hash(u.Password)))
		default:
			w.line(indent+2, "password: %s", scalar(u.Password))
		}
		w.line(indent+2, "vhosts: %s", flow(u.Vhosts))
		w.line(indent+2, "loopback_only: %t", u.LoopbackOnly)
	}
}
