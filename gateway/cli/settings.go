package cli

import (
	"flag"
	"os"
	"strings"

	"polylog/gateway/config"
)

// settings are the flags that set configuration keys, in the order in which they were typed.
type settings struct {
	file  string
	flags []config.Override
}

// settingFlags are the keys that have a flag of their own.
var settingFlags = []struct{ name, key, usage string }{
	{"data", "data", "keep the log in `DIR`"},
	{"amqp", "amqp.listen", "serve AMQP 0-9-1 at `ADDR`, like :5672; \"\" turns it off"},
	{"kafka", "kafka.listen", "serve Kafka at `ADDR`, like 127.0.0.1:9092; \"\" turns it off"},
	{"mqtt", "mqtt.listen", "serve MQTT at `ADDR`; not there yet, so only \"\" is taken"},
	{"node", "node", "call this node `NAME`; in a cluster each has its own"},
	{"cluster", "cluster.listen", "be a node of a cluster, which the others reach at `ADDR`"},
	{"seeds", "cluster.seeds", "the `ADDRS` of the nodes that the cluster begins with, with commas between"},
	{"http", "http.listen", "serve metrics and health at `ADDR`, like 127.0.0.1:15672; \"\" turns it off"},
}

// addTo adds the flags that set keys.
func (s *settings) addTo(fs *flag.FlagSet) {
	fs.StringVar(&s.file, "config", "", "read the configuration from `FILE`")
	for _, f := range settingFlags {
		fs.Func(f.name, f.usage, func(value string) error {
			s.flags = append(s.flags, config.Override{Key: f.key, Value: value, From: "--" + f.name})
			return nil
		})
	}
	fs.Func("set", "set any key, as `KEY=VALUE`, like sync.policy=interval; may be repeated", func(text string) error {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return errNoValue
		}
		s.flags = append(s.flags, config.Override{Key: key, Value: value, From: "--set"})
		return nil
	})
}

// load makes the configuration. If it is wrong the command is over, with the returned exit status, and load has said why.
func (s *settings) load(env Env) (c *config.Config, code int) {
	c, err := config.Load(s.file, os.Environ(), s.flags)
	if err != nil {
		return nil, env.Misused("%s", err)
	}
	return c, ExitOK
}
