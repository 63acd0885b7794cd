package config

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
	"golang.org/x/crypto/bcrypt"

	"polylog/logstore"
)

// writeFile makes a configuration file and returns its name.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "polylog.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func load(t *testing.T, file string, environ []string, flags ...Override) *Config {
	t.Helper()
	c, err := Load(file, environ, flags)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNoConfigurationIsTheDefault(t *testing.T) {
	t.Parallel()
	c := load(t, "", []string{"HOME=/", "PATH="})
	if !reflect.DeepEqual(c, Default()) {
		t.Errorf("without a configuration there is\n%+v, the default is\n%+v", c, Default())
	}
	if c.AMQP.Listen != ":5672" || c.Kafka.Listen != "127.0.0.1:9092" || c.HTTP.Listen != "127.0.0.1:15672" || c.MQTT.Listen != "" {
		t.Errorf("the default addresses are %q, %q, %q, %q", c.AMQP.Listen, c.Kafka.Listen, c.HTTP.Listen, c.MQTT.Listen)
	}
	if len(c.Users) != 1 || c.Users[0].Name != "guest" || !c.Users[0].LoopbackOnly {
		t.Errorf("the default users are %+v", c.Users)
	}
}

func TestLaterSourcesWin(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "node: file\ndata: /file\nlog: {level: debug}\namqp:\n  frame_max: 64KiB\n")
	c := load(t, file, []string{"POLYLOG_DATA=/env", "POLYLOG_LOG_LEVEL=warn", "POLYLOG_KAFKA_LISTEN="}, Override{"log.level", "error", "--set"})
	if c.Node != "file" || c.Data != "/env" || c.Log.Level != "error" || c.AMQP.FrameMax != 64<<10 || c.Kafka.Listen != "" {
		t.Errorf("got %+v", c)
	}
	for key, want := range map[string]string{
		"node": file + ":1", "data": "POLYLOG_DATA", "log.level": "--set", "amqp.frame_max": file + ":5", "kafka.listen": "POLYLOG_KAFKA_LISTEN",
		"sync.policy": "the default",
	} {
		if got := c.Source(key); got != want {
			t.Errorf("%s comes from %q, want %q", key, got, want)
		}
	}
}

func TestEnvironmentNamesTheFile(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "node: fromfile\n")
	if c := load(t, "", []string{"POLYLOG_CONFIG=" + file}); c.Node != "fromfile" {
		t.Errorf("node is %q", c.Node)
	}
	other := writeFile(t, "node: fromflag\n")
	if c := load(t, other, []string{"POLYLOG_CONFIG=" + file}); c.Node != "fromflag" {
		t.Errorf("node is %q", c.Node)
	}
}

// What is wrong is told with where it is and what would be right.
func TestErrorsNameTheValueThePlaceAndTheRemedy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file  string
		env   []string
		flags []Override
		want  []string // FILE stands for the file's name
	}{
		{file: "dtaa: x\n", want: []string{`FILE:1: unknown key "dtaa", did you mean "data"?`}},
		{file: "amqp:\n  lisen: x\n", want: []string{`FILE:2: unknown key "amqp.lisen", did you mean "amqp.listen"?`}},
		{file: "\nkafkalisten: x\n", want: []string{`FILE:2: unknown key "kafkalisten", did you mean "kafka.listen"?`}},
		{file: "kafka: {frame_max: 1}\n", want: []string{`FILE:1: unknown key "kafka.frame_max", did you mean "amqp.frame_max"?`}},
		{file: "aqmp: {}\n", want: []string{`FILE:1: unknown key "aqmp", did you mean "amqp"?`}},
		{file: "xylophone: 1\n", want: []string{`FILE:1: unknown key "xylophone"` + "\x00"}},
		{file: "amqp: 5\n", want: []string{"FILE:1: amqp must be keys with values, like \"listen: ...\""}},
		{file: "- a\n", want: []string{"FILE:1: the file must be keys with values"}},
		{file: "amqp:\n  frame_max: 1KiB\n", want: []string{`FILE:2: amqp.frame_max is "1KiB": out of range; allowed: 4KiB to 16MiB`}},
		{file: "amqp:\n  frame_max: big\n", want: []string{`FILE:2: amqp.frame_max is "big": a size is a whole number of B, KiB,`}},
		{file: "amqp:\n  heartbeat: 60\n", want: []string{`FILE:2: amqp.heartbeat is "60": a duration is a number with a unit`}},
		{file: "amqp:\n  listen:\n", want: []string{`FILE:2: amqp.listen is without a value`}},
		{file: "amqp:\n  listen: [a]\n", want: []string{`FILE:2: amqp.listen is a list or several keys`}},
		{file: "amqp:\n  listen: 5672\n", want: []string{`FILE:2: amqp.listen is "5672": not HOST:PORT; allowed: HOST:PORT,`}},
		{file: "amqp:\n  listen: localhost:70000\n", want: []string{`the port is "70000", allowed are 0 to 65535`}},
		{file: "kafka:\n  advertise: :9092\n", want: []string{`kafka.advertise is ":9092": without a host`}},
		{file: "sync: {policy: sometimes}\n", want: []string{`sync.policy is "sometimes": out of range; allowed: always, interval, os`}},
		{file: "http:\n  pprof: yes\n", want: []string{`http.pprof is "yes": neither true nor false`}},
		{file: "data: a\ndata: b\n", want: []string{"FILE:2: data is set a second time, the first time is in line 1"}},
		{file: "data: a\n---\ndata: b\n", want: []string{"FILE:2: not valid YAML: a second document begins"}},
		{file: "data: [\n", want: []string{"FILE:2: not valid YAML: did not find expected node content while parsing a flow node"}},
		{file: "mqtt: {listen: ':1883'}\n", want: []string{`FILE:1: mqtt.listen is ":1883": MQTT is not served yet`}},
		{file: "group: {session_timeout_min: 1h}\n", want: []string{"FILE:1: group.session_timeout_min is 1h, which is over group.session_timeout_max, 30m (the default)"}},
		{file: "vhosts: []\n", want: []string{"FILE:1: vhosts is as it is: empty; allowed: a list of names"}},
		{file: "vhosts: [a, b, a]\n", want: []string{`"a" is there twice`}},
		{file: "users:\n- name: a\n", want: []string{`FILE:1: users is as it is: the user "a" must have one of password and password_hash`}},
		{file: "users:\n- name: a\n  passwort: b\n", want: []string{`FILE:3: unknown key "passwort" of a user, did you mean "password"?`}},
		{file: "users:\n- name: a\n  password_hash: b\n", want: []string{`password_hash of the user "a" is no bcrypt hash`}},
		{file: "users: [{name: a, password: b, vhosts: [x]}]\n", want: []string{`FILE:1: the user "a" may open the vhost "x", which is not in vhosts (the default)`}},
		{file: "users: [{name: a, password: b}, {name: a, password: c}]\n", want: []string{`"a" is there twice`}},
		{env: []string{"POLYLOG_AMQP_LISEN=x"}, want: []string{"unknown environment variable POLYLOG_AMQP_LISEN, did you mean POLYLOG_AMQP_LISTEN?"}},
		{env: []string{"POLYLOG_SYNC_POLICY=never"}, want: []string{`POLYLOG_SYNC_POLICY: sync.policy is "never": out of range`}},
		{env: []string{"POLYLOG_USERS=guest"}, want: []string{"POLYLOG_USERS: users is what was given: line 1: not a list"}},
		{env: []string{"POLYLOG_VHOSTS="}, want: []string{"POLYLOG_VHOSTS: vhosts is what was given: empty"}},
		{flags: []Override{{"kafka.listen", "x", "--kafka"}}, want: []string{`--kafka: kafka.listen is "x": not HOST:PORT`}},
		{flags: []Override{{"kafka.lsten", "x", "--set"}}, want: []string{`--set: unknown key "kafka.lsten", did you mean "kafka.listen"?`}},
		{ // all of it at once
			file: "a: 1\nnode: ''\n", env: []string{"POLYLOG_LOG_LEVEL=loud"}, flags: []Override{{"mqtt.listen", ":1883", "--mqtt"}},
			want: []string{`FILE:1: unknown key "a"`, `FILE:2: node is "": empty`, `POLYLOG_LOG_LEVEL: log.level is "loud": out of range`, "--mqtt: mqtt.listen"},
		},
	} {
		file := ""
		if c.file != "" {
			file = writeFile(t, c.file)
		}
		_, err := Load(file, c.env, c.flags)
		if err == nil {
			t.Errorf("%q, %q, %v are accepted", c.file, c.env, c.flags)
			continue
		}
		got := strings.ReplaceAll(err.Error(), file, "FILE") + "\x00"
		if file == "" {
			got = err.Error() + "\x00"
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q, %q, %v: the error is\n%s\nwant in it\n%s", c.file, c.env, c.flags, got, want)
			}
		}
		if strings.Contains(got, "\x00\n") || strings.Contains(got, "go-yaml") {
			t.Errorf("%q: the error is %q", c.file, got)
		}
	}
}

func TestMissingFileIsAnError(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "missing.yaml")
	for _, err := range []error{
		func() error { _, err := Load(name, nil, nil); return err }(),
		func() error { _, err := Load("", []string{"POLYLOG_CONFIG=" + name}, nil); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), name) || !os.IsNotExist(unwrapped(err)) {
			t.Errorf("the error is %v", err)
		}
	}
}

func unwrapped(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return err
}

func TestVariablesThatNobodyMeantAreOnlyAWarning(t *testing.T) {
	t.Parallel()
	// As Kubernetes sets them for a service of this name.
	c := load(t, "", []string{"POLYLOG_PORT=tcp://10.0.0.1:5672", "POLYLOG_SERVICE_HOST=10.0.0.1", "POLYLOG_PORT_5672_TCP_ADDR=10.0.0.1"})
	if len(c.Warnings) != 3 || !strings.Contains(c.Warnings[0], "POLYLOG_PORT ") {
		t.Errorf("the warnings are %q", c.Warnings)
	}
}

func TestEmptyFileAndEmptySectionsSetNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "---\n", "amqp:\n  # listen: x\n"} {
		c := load(t, writeFile(t, text), nil)
		if !reflect.DeepEqual(c, Default()) {
			t.Errorf("%q sets something", text)
		}
	}
}

func TestAliasesAreFollowed(t *testing.T) {
	t.Parallel()
	c := load(t, writeFile(t, "amqp:\n  message_max: &m 2MiB\nkafka:\n  message_max: *m\n"), nil)
	if c.Kafka.MessageMax != 2<<20 {
		t.Errorf("kafka.message_max is %d", c.Kafka.MessageMax)
	}
}

func TestUsersAreReadFromFileAndEnvironment(t *testing.T) {
	t.Parallel()
	want := []User{
		{Name: "guest", Password: "g", Vhosts: []string{"*"}, LoopbackOnly: true},
		{Name: "app", PasswordHash: "$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy", Vhosts: []string{"/", "b"}},
	}
	flow := `[{name: guest, password: g}, {name: app, password_hash: "` + want[1].PasswordHash + `", vhosts: [/, b], loopback_only: false}]`
	for _, c := range []*Config{
		load(t, writeFile(t, "vhosts: [/, b]\nusers: "+flow+"\n"), nil),
		load(t, "", []string{"POLYLOG_VHOSTS=[/, b]", "POLYLOG_USERS=" + flow}),
		load(t, "", nil, Override{"vhosts", "[/, b]", "--set"}, Override{"users", flow, "--set"}),
	} {
		if !reflect.DeepEqual(c.Users, want) {
			t.Errorf("users are %+v, want %+v", c.Users, want)
		}
	}
}

// unlike returns a value that the key allows and does not have.
func unlike(t *testing.T, s setting) string {
	t.Helper()
	switch v := s.to.(type) {
	case text:
		return v.text() + "-other"
	case choice:
		for _, o := range v.of {
			if o != v.text() {
				return o
			}
		}
	case number:
		return (number{to: new(*v.to + 1)}).text()
	case size:
		return FormatSize(max(*v.to/2, 2<<10))
	case duration:
		return FormatDuration(*v.to/2 + time.Second)
	case yes:
		if *v.to {
			return "false"
		}
		return "true"
	case syncPolicy:
		return "interval"
	case address, advertised:
		return "127.0.0.1:1"
	case optional:
		return "there:1"
	case words:
		return "a:1,b:2"
	case vhosts:
		return "[/, other]"
	case users:
		return "[{name: other, password: secret}]"
	case unserved:
		return ""
	}
	t.Fatalf("%s has a value of an unknown kind, %T", s.key, s.to)
	return ""
}

func TestEveryKeyCanBeSetEverywhereAndIsPrinted(t *testing.T) {
	t.Parallel()
	for _, s := range Default().settings() {
		if s.key == "mqtt.listen" || s.key == "cluster.secret" { // TestSecretIsNotPrinted
			continue
		}
		want := unlike(t, s)
		var more []Override // what the key makes necessary
		if s.key == "cluster.listen" || s.key == "cluster.nats" {
			more = []Override{{"node", "n1", "--node"}, {"cluster.secret", "s", "--set"}, {"cluster.seeds", "a:1,b:1", "--set"}}
		}
		section, name, nested := strings.Cut(s.key, ".")
		text := s.key + ": " + want + "\n"
		if nested {
			text = section + ": {" + name + ": '" + want + "'}\n"
		}
		for from, c := range map[string]*Config{
			"file": load(t, writeFile(t, text), nil, more...), "environment": load(t, "", []string{s.env() + "=" + want}, more...),
			"flag": load(t, "", nil, append(more, Override{s.key, want, "--set"})...),
		} {
			got, _ := find(c.settings(), s.key)
			if got.to.text() == s.to.text() && s.key != "users" || s.key == "users" && c.Users[0].Name != "other" {
				t.Errorf("%s from the %s: it is still %q", s.key, from, got.to.text())
			}
			var w writer // without hashes, which take their time
			w.config(c)
			back := load(t, writeFile(t, w.b.String()), nil, more...)
			again, _ := find(back.settings(), s.key)
			if again.to.text() != got.to.text() {
				t.Errorf("%s: %q was printed and read back as %q", s.key, got.to.text(), again.to.text())
			}
		}
	}
}

// Every field of the schema is the field of one row, so that none is out of an operator's reach.
func TestEveryFieldHasAKey(t *testing.T) {
	t.Parallel()
	c := Default()
	bound := map[uintptr]string{}
	for _, s := range c.settings() {
		ptr := reflect.ValueOf(s.to).FieldByName("to").Pointer()
		if other, twice := bound[ptr]; twice {
			t.Errorf("%s and %s are the same field", s.key, other)
		}
		bound[ptr] = s.key
		if s.help == "" || !strings.HasSuffix(strings.TrimRight(s.help, ")"), ".") {
			t.Errorf("%s is explained by %q", s.key, s.help)
		}
		if err := s.to.check(); err != nil {
			t.Errorf("the default of %s is not allowed: %v", s.key, err)
		}
	}
	var walk func(v reflect.Value, name string)
	walk = func(v reflect.Value, name string) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() || f.Name == "Warnings" {
				continue
			}
			if f.Type.Kind() == reflect.Struct {
				walk(v.Field(i), name+f.Name+".")
				continue
			}
			if _, has := bound[v.Field(i).Addr().Pointer()]; !has {
				t.Errorf("the field %s%s has no key", name, f.Name)
			}
		}
	}
	walk(reflect.ValueOf(c).Elem(), "")
}

func TestPrintedConfigurationHidesPasswordsAndKeepsThem(t *testing.T) {
	t.Parallel()
	c := load(t, writeFile(t, "users: [{name: app, password: 'correct horse'}]\n"), nil)
	var b bytes.Buffer
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "correct horse") {
		t.Errorf("the password is printed:\n%s", b.String())
	}
	back := load(t, writeFile(t, b.String()), nil)
	if err := bcrypt.CompareHashAndPassword([]byte(back.Users[0].PasswordHash), []byte("correct horse")); err != nil {
		t.Errorf("with the printed hash the user cannot log in: %v", err)
	}
	var again bytes.Buffer
	if err := back.Write(&again); err != nil || again.String() != b.String() {
		t.Errorf("read back and printed again it is another: %v\n%s", err, again.String())
	}
}

// The shipped example says what is true: it is what the defaults print.
func TestExampleIsTheDefaults(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := WriteExample(&b); err != nil {
		t.Fatal(err)
	}
	if b.String() != string(text) {
		t.Errorf("example.yaml is not what is printed; run: go run . config -example > gateway/config/example.yaml")
	}
	c, d := load(t, "example.yaml", nil), Default()
	c.sources = d.sources
	if !reflect.DeepEqual(c, d) {
		t.Errorf("example.yaml gives\n%+v\nthe defaults are\n%+v", c, d)
	}
}

func TestWordsAreQuotedWhereYAMLWouldTakeThemForSomethingElse(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"data": "data", "/": "/", "30s": "30s", "127.0.0.1:9092": "127.0.0.1:9092", "": `""`, ":5672": `":5672"`, "no": `"no"`, "~": `"~"`, "*": `"*"`, "a: b": `"a: b"`,
		"a #b": `"a #b"`, "1e3": `"1e3"`, "12:30": `"12:30"`, "<&>": `"<&>"`, "a\nb": `"a\nb"`, "ünï": `"ünï"`,
	} {
		if got := scalar(word); got != want {
			t.Errorf("%q is written %s, want %s", word, got, want)
		}
		c := Default()
		if word == "" || strings.Contains(word, "\n") {
			continue
		}
		c.Node = word
		var w writer
		w.config(c)
		if back := load(t, writeFile(t, w.b.String()), nil); back.Node != word {
			t.Errorf("%q was read back as %q", word, back.Node)
		}
	}
}

func TestSizesAndDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "1": 1, "16MiB": 16 << 20, "1 GiB": 1 << 30, "5kB": 5000, "5KB": 5000, "7B": 7, "2TiB": 2 << 40} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v", text, got, err)
		}
		if back, err := ParseSize(FormatSize(want)); err != nil || back != want {
			t.Errorf("%d is printed %q and read back as %d", want, FormatSize(want), back)
		}
	}
	for _, text := range []string{"", "-1", "1.5MiB", "MiB", "1MiBB", "99999999999TiB", "1e3", "0x10"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d", text, got)
		}
	}
	for text, want := range map[string]time.Duration{"0s": 0, "100ms": 100 * time.Millisecond, "7d": 7 * day, "1h30m": 90 * time.Minute, "24h": day, "1m1s": 61 * time.Second} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v", text, got, err)
		}
		if back, err := ParseDuration(FormatDuration(want)); err != nil || back != want {
			t.Errorf("%v is printed %q and read back as %v", want, FormatDuration(want), back)
		}
	}
	for _, text := range []string{"", "5", "d", "-1d", "1.5d", "999999999999d", "soon"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %v", text, got)
		}
	}
}

func TestDefaultSyncConfirmsWhatIsOnTheDisk(t *testing.T) {
	t.Parallel()
	if p := Default().Sync.Policy; p != logstore.SyncAlways {
		t.Errorf("the default sync policy is %v", p)
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	t.Parallel()
	c := load(t, "", []string{"POLYLOG_CLUSTER_SECRET=hush"})
	if c.Cluster.Secret != "hush" {
		t.Errorf("the secret is %q", c.Cluster.Secret)
	}
	var w writer
	w.config(c)
	if strings.Contains(w.b.String(), "hush") {
		t.Error("the secret is printed")
	}
	if _, err := Load(writeFile(t, w.b.String()), nil, nil); err == nil || !strings.Contains(err.Error(), "cluster.secret") {
		t.Errorf("what stands for the secret is taken for it: %v", err)
	}
}

func TestANodeOfAClusterIsToldWhatItNeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  []string
		want string
	}{
		{[]string{"POLYLOG_CLUSTER_LISTEN=:7000", "POLYLOG_CLUSTER_SEEDS=a:1,b:1", "POLYLOG_CLUSTER_SECRET=s"}, "node is not set"},
		{[]string{"POLYLOG_NODE=n1", "POLYLOG_CLUSTER_LISTEN=:7000", "POLYLOG_CLUSTER_SEEDS=a:1,b:1"}, "cluster.secret is not set"},
		{[]string{"POLYLOG_NODE=n1", "POLYLOG_CLUSTER_LISTEN=:7000", "POLYLOG_CLUSTER_SEEDS=a:1", "POLYLOG_CLUSTER_SECRET=s"}, "less than two addresses"},
		{[]string{"POLYLOG_NODE=n1", "POLYLOG_CLUSTER_LISTEN=:7000", "POLYLOG_CLUSTER_SEEDS=a:1,b", "POLYLOG_CLUSTER_SECRET=s"}, `"b" is not HOST:PORT`},
		{[]string{"POLYLOG_NODE=n 1", "POLYLOG_CLUSTER_LISTEN=:7000", "POLYLOG_CLUSTER_SEEDS=a:1,b:1", "POLYLOG_CLUSTER_SECRET=s"}, `node is "n 1"`},
		{[]string{"POLYLOG_NODE=n1", "POLYLOG_CLUSTER_LISTEN=:7000", "POLYLOG_CLUSTER_NATS=nats://a:1", "POLYLOG_CLUSTER_SEEDS=a:1,b:1", "POLYLOG_CLUSTER_SECRET=s"}, "are both set"},
	} {
		if _, err := Load("", c.env, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q in it", c.env, err, c.want)
		}
	}
}

// The nodes of docker-compose.yml are configured as a node can be.
func TestTheShippedClusterIsConfiguredRightly(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Environment map[string]string `yaml:"environment"`
		} `yaml:"services"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Services) != 3 {
		t.Errorf("%d nodes, want 3", len(file.Services))
	}
	for name, s := range file.Services {
		env := []string{"POLYLOG_DATA=/data"}
		for k, v := range s.Environment {
			env = append(env, k+"="+v)
		}
		c, err := Load("", env, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.Node != name || len(c.Warnings) > 0 || len(c.Cluster.Seeds) != 3 {
			t.Errorf("%s is node %q with the seeds %v; warnings: %v", name, c.Node, c.Cluster.Seeds, c.Warnings)
		}
	}
}
