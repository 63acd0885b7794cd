package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"polylog/gateway/spelling"
)

// EnvPrefix begins the environment variables that set keys: amqp.frame_max is POLYLOG_AMQP_FRAME_MAX.
const EnvPrefix = "POLYLOG_"

// FileEnv is the environment variable that names the configuration file when no flag does.
const FileEnv = EnvPrefix + "CONFIG"

// Override is a key that was set on the command line.
type Override struct {
	Key   string
	Value string
	From  string // how it was typed, for messages: "--data"
}

// Load makes the configuration: the defaults, over them the file, over it the environment, over it the flags. file may be empty, then FileEnv may name one. environ is as
// os.Environ gives it. All that is wrong is in the error, a line for each.
func Load(file string, environ []string, flags []Override) (*Config, error) {
	c := Default()
	rows := c.settings()
	env := polylogOf(environ)
	if file == "" {
		file = env[FileEnv]
	}
	delete(env, FileEnv)
	l := &loader{c: c, rows: rows}
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the configuration: %w", err)
		}
		l.readFile(file, text)
	}
	l.readEnv(env)
	for _, f := range flags {
		s, known := find(rows, f.Key)
		if !known {
			l.wrong("%s: unknown key %q%s", f.From, f.Key, hint(f.Key, keys(rows)))
			continue
		}
		l.set(s, f.Value, f.From)
	}
	l.check()
	if err := errors.Join(l.errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// loader gathers what is wrong, so that an operator sees all of it at once.
type loader struct {
	c    *Config
	rows []setting
	bad  []string // keys whose value could not be read: their range is not checked
	errs []error
}

func (l *loader) wrong(format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf(format, args...))
}

// set gives a key the value that was written in one word, or in YAML if the key has a value of several.
func (l *loader) set(s setting, text, from string) {
	v, structured := s.to.(nodeValue)
	if !structured {
		l.took(s, s.to.parse(text), fmt.Sprintf("%q", text), from)
		return
	}
	doc, err := parseYAML([]byte(text))
	if err == nil && doc == nil {
		err = errors.New("empty")
	}
	if err == nil {
		err = v.parseNode(doc, "")
	}
	l.took(s, err, "what was given", from)
}

// took notes where a key's value came from, and what was wrong with it.
func (l *loader) took(s setting, err error, given, from string) {
	l.c.sources[s.key] = from
	if err == nil {
		l.bad = slices.DeleteFunc(l.bad, func(k string) bool { return k == s.key })
		return
	}
	l.bad = append(l.bad, s.key)
	l.refuse(s, err, given)
}

func (l *loader) refuse(s setting, err error, given string) {
	l.wrong("%s: %s is %s: %w; allowed: %s", l.c.Source(s.key), s.key, given, err, s.to.allowed())
}

// polylogOf returns the environment variables that are meant for Polylog.
func polylogOf(environ []string) map[string]string {
	env := map[string]string{}
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok && strings.HasPrefix(name, EnvPrefix) {
			env[name] = value
		}
	}
	return env
}

// readEnv takes the variables that set keys. One that nearly names a key is an error. Others with the prefix are only a warning, since they may have come about without
// anybody's doing: in Kubernetes, a service named polylog gives POLYLOG_PORT and its like to every container.
func (l *loader) readEnv(env map[string]string) {
	known := []string{strings.TrimPrefix(FileEnv, EnvPrefix)}
	for _, s := range l.rows {
		known = append(known, strings.TrimPrefix(s.env(), EnvPrefix))
		if text, set := env[s.env()]; set {
			l.set(s, text, s.env())
			delete(env, s.env())
		}
	}
	left := make([]string, 0, len(env))
	for name := range env {
		left = append(left, name)
	}
	slices.Sort(left)
	for _, name := range left {
		if near := spelling.Nearest(strings.TrimPrefix(name, EnvPrefix), known); near != "" {
			l.wrong("unknown environment variable %s, did you mean %s?", name, EnvPrefix+near)
			continue
		}
		l.c.Warnings = append(l.c.Warnings, fmt.Sprintf("the environment variable %s sets no key and was ignored", name))
	}
}

// check holds every value to its range, and values to each other.
func (l *loader) check() {
	for _, s := range l.rows {
		if slices.Contains(l.bad, s.key) {
			continue
		}
		if err := s.to.check(); err != nil {
			given := "as it is"
			if _, structured := s.to.(nodeValue); !structured {
				given = fmt.Sprintf("%q", s.to.text())
			}
			l.refuse(s, err, given)
		}
	}
	if len(l.errs) > 0 {
		return
	}
	c := l.c
	if c.Group.SessionTimeoutMin > c.Group.SessionTimeoutMax {
		l.wrong("%s: group.session_timeout_min is %s, which is over group.session_timeout_max, %s (%s)", c.Source("group.session_timeout_min"),
			FormatDuration(c.Group.SessionTimeoutMin), FormatDuration(c.Group.SessionTimeoutMax), c.Source("group.session_timeout_max"))
	}
	for _, u := range c.Users {
		for _, v := range u.Vhosts {
			if v != AnyVhost && !slices.Contains(c.Vhosts, v) {
				l.wrong("%s: the user %q may open the vhost %q, which is not in vhosts (%s)", c.Source("users"), u.Name, v, c.Source("vhosts"))
			}
		}
	}
	if c.Clustered() {
		l.checkCluster()
	}
	if c.AMQP.Listen == "" && c.Kafka.Listen == "" {
		c.Warnings = append(c.Warnings, "amqp.listen and kafka.listen are empty: no client can connect")
	}
	if c.AMQP.Listen != "" && len(c.Users) == 0 {
		c.Warnings = append(c.Warnings, "users is empty: nobody can log in with AMQP")
	}
}

// checkCluster holds to each other what a node of a cluster is told.
func (l *loader) checkCluster() {
	c := l.c
	if c.sources["node"] == "" {
		l.wrong("node is not set: in a cluster every node has a name of its own; name it (node, POLYLOG_NODE, --node)")
	}
	if c.Cluster.Listen != "" && len(c.Cluster.NATS) > 0 {
		l.wrong("cluster.listen (%s) and cluster.nats (%s) are both set: the order is carried by the servers in the nodes or by one that is operated elsewhere", c.Source("cluster.listen"), c.Source("cluster.nats"))
	}
	for key, name := range map[string]string{"node": c.Node, "cluster.name": c.Cluster.Name} {
		if strings.IndexFunc(name, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
		}) >= 0 || len(name) > 64 {
			l.wrong("%s: %s is %q: in a cluster a name has 1 to 64 letters, digits, - or _", c.Source(key), key, name)
		}
	}
	if c.Cluster.Listen == "" {
		return
	}
	if c.Cluster.Secret == "" {
		l.wrong("cluster.secret is not set: give all nodes the same (cluster.secret, POLYLOG_CLUSTER_SECRET)")
	}
	if len(c.Cluster.Seeds) < 2 {
		l.wrong("cluster.seeds has less than two addresses: a cluster begins with at least two nodes, and takes writes without one of them only from three on; name the addresses of all nodes that the cluster begins with (cluster.seeds, POLYLOG_CLUSTER_SEEDS, --seeds)")
	}
	for _, s := range append([]string{c.Cluster.Advertise}, c.Cluster.Seeds...) {
		if err := (advertised{&s}).check(); err != nil {
			l.wrong("cluster.seeds (%s) or cluster.advertise (%s): %q is %w; allowed: HOST:PORT", c.Source("cluster.seeds"), c.Source("cluster.advertise"), s, err)
		}
	}
}

func keys(rows []setting) []string {
	names := make([]string, len(rows))
	for i, s := range rows {
		names[i] = s.key
	}
	return names
}

func hint(typed string, names []string) string {
	if near := spelling.Nearest(typed, names); near != "" {
		return fmt.Sprintf(", did you mean %q?", near)
	}
	return ""
}
