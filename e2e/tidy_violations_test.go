package e2e

import (
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// TestChecksFindViolations holds each check against small trees, good and bad.
func TestChecksFindViolations(t *testing.T) {
	imports := func(pkg string, paths ...string) string {
		s := "package " + pkg + "\n"
		for _, p := range paths {
			s += "import _ " + strconv.Quote(p) + "\n"
		}
		return s
	}
	// withPure adds the pure files, which must exist, empty.
	withPure := func(files map[string]string) map[string]string {
		for _, name := range pureFiles {
			if _, has := files[name]; !has {
				files[name] = "package logstore\n"
			}
		}
		return files
	}
	for _, c := range []struct {
		name  string
		check func(*source) []string
		files map[string]string
		want  []string // a part of each violation, in order; none: the tree is good
	}{
		{"all imports point down", importsAgainstTheOrder, map[string]string{
			"main.go":                  imports("main", "polylog/gateway/cli", "os"),
			"gateway/gateway.go":       imports("gateway", "polylog/gateway/config", "polylog/protocols/amqp", "polylog/cluster", "polylog/logstore", "net/http"),
			"protocols/amqp/amqp.go":   imports("amqp", "polylog/protocols/amqp/wire", "polylog/protocols/stream", "polylog/viewlayer/queue"),
			"viewlayer/queue/queue.go": imports("queue", "polylog/viewlayer/topic", "polylog/viewlayer/message", "polylog/logstore/record"),
			"cluster/node.go":          imports("cluster", "polylog/logstore", "github.com/nats-io/nats-server/v2/server"),
			"logstore/store.go":        imports("logstore", "polylog/logstore/record", "polylog/logstore/segment", "polylog/logstore/vfs"),
			"logstore/segment/seg.go":  imports("segment", "polylog/logstore/record", "polylog/logstore/vfs"),
			"logstore/vfs/vfs_test.go": imports("vfs_test", "polylog/logstore/vfs"),
			"e2e/crash_test.go":        imports("e2e", "polylog/gateway", "polylog/logstore", "polylog/e2e/harness"),
		}, nil},
		{"the log knows no view", importsAgainstTheOrder, map[string]string{
			"logstore/a.go": imports("logstore", "polylog/viewlayer/queue"),
		}, []string{"logstore/a.go imports polylog/viewlayer/queue"}},
		{"nor the gateway, in tests either", importsAgainstTheOrder, map[string]string{
			"logstore/a_test.go": imports("logstore_test", "polylog/gateway/cli"),
		}, []string{"logstore/a_test.go imports polylog/gateway/cli"}},
		{"the parts of the log do not know the log", importsAgainstTheOrder, map[string]string{
			"logstore/segment/a.go": imports("segment", "polylog/logstore"),
			"logstore/vfs/a.go":     imports("vfs", "polylog/logstore"),
			"logstore/record/a.go":  imports("record", "polylog/logstore/vfs"),
		}, []string{"record/a.go imports polylog/logstore/vfs", "segment/a.go imports polylog/logstore;", "vfs/a.go imports polylog/logstore;"}},
		{"seeds are for tests", importsAgainstTheOrder, map[string]string{
			"logstore/a.go":      imports("logstore", "polylog/logstore/seed"),
			"logstore/a_test.go": imports("logstore", "polylog/logstore/seed"),
		}, []string{"logstore/a.go imports polylog/logstore/seed, which only tests may"}},
		{"a view knows no gateway, protocol or cluster", importsAgainstTheOrder, map[string]string{
			"viewlayer/topic/a.go": imports("topic", "polylog/gateway", "polylog/protocols/kafka", "polylog/cluster"),
		}, []string{"imports polylog/gateway", "imports polylog/protocols/kafka", "imports polylog/cluster"}},
		{"nor another view", importsAgainstTheOrder, map[string]string{
			"viewlayer/queue/a.go":   imports("queue", "polylog/viewlayer/group"),
			"viewlayer/session/a.go": imports("session", "polylog/viewlayer/queue"),
		}, []string{"queue/a.go imports polylog/viewlayer/group", "session/a.go imports polylog/viewlayer/queue"}},
		{"a protocol knows no other", importsAgainstTheOrder, map[string]string{
			"protocols/amqp/wire/a.go": imports("wire", "polylog/protocols/kafka/wire"),
			"protocols/mqtt/a.go":      imports("mqtt", "polylog/gateway/auth"),
			"protocols/stream/a.go":    imports("stream", "polylog/protocols/mqtt"),
		}, []string{"imports polylog/protocols/kafka/wire", "imports polylog/gateway/auth", "imports polylog/protocols/mqtt"}},
		{"the cluster knows the log only", importsAgainstTheOrder, map[string]string{
			"cluster/a.go": imports("cluster", "polylog/viewlayer/queue"),
		}, []string{"imports polylog/viewlayer/queue"}},
		{"main hands over to the command line", importsAgainstTheOrder, map[string]string{
			"main.go": imports("main", "polylog/logstore"),
		}, []string{"main.go imports polylog/logstore"}},
		{"nobody imports main or e2e", importsAgainstTheOrder, map[string]string{
			"gateway/a.go": imports("gateway", "polylog", "polylog/e2e"),
		}, []string{"imports polylog;", "imports polylog/e2e"}},
		{"a name that only begins like the module is another's", importsAgainstTheOrder, map[string]string{
			"logstore/a.go": imports("logstore", "polylogger/gateway"),
		}, nil},
		{"a new folder needs a place", importsAgainstTheOrder, map[string]string{
			"tools/gen/a.go": imports("gen"),
		}, []string{"tools/gen/a.go: the folder has no place"}},
		{"HTTP and NATS stay where they belong", importsAgainstTheOrder, map[string]string{
			"logstore/a.go":        imports("logstore", "net/http/pprof"),
			"protocols/amqp/a.go":  imports("amqp", "net/http"),
			"viewlayer/group/a.go": imports("group", "github.com/nats-io/nats.go"),
		}, []string{"a.go imports net/http/pprof", "a.go imports net/http", "a.go imports github.com/nats-io/nats.go"}},

		{"a pure machine", impurities, withPure(map[string]string{
			"logstore/apply.go":        imports("logstore", "bytes", "errors", "polylog/logstore/record"),
			"logstore/local.go":        imports("logstore", "os", "sync", "time"),
			"viewlayer/queue/claim.go": "package queue\nimport \"time\"\nfunc due(now, at time.Time) bool { return at.After(now.Add(time.Second)) }\n",
			"viewlayer/queue/a_test.go": "package queue\nimport \"time\"\nvar began = time.Now()\n" +
				"func run() { go run() }\n",
		}), nil},
		{"the world comes in through imports", impurities, withPure(map[string]string{
			"logstore/apply.go":     imports("logstore", "time", "os", "math/rand/v2"),
			"logstore/kv.go":        imports("logstore", "sync/atomic", "net", "polylog/logstore/vfs"),
			"viewlayer/queue/a.go":  imports("queue", "net/netip", "math/rand"),
			"viewlayer/topic/a.go":  imports("topic", "crypto/rand"),
			"viewlayer/topic/ok.go": imports("topic", "sync", "math/bits"),
		}), []string{
			"logstore/apply.go is pure and imports time", "imports os", "imports math/rand/v2",
			"logstore/kv.go is pure and imports sync/atomic", "imports net", "imports polylog/logstore/vfs",
			"viewlayer/queue/a.go is pure and imports net/netip", "imports math/rand", "viewlayer/topic/a.go is pure and imports crypto/rand",
		}},
		{"and through goroutines and clocks", impurities, withPure(map[string]string{
			"logstore/state.go":    "package logstore\nfunc f() { go f() }\n",
			"viewlayer/queue/a.go": "package queue\nimport clock \"time\"\nvar now = clock.Now\nfunc f() { clock.Sleep(1) }\n",
		}), []string{"logstore/state.go:2:12 is pure and starts a goroutine", "a.go:3:11 is pure and uses time.Now", "uses time.Sleep"}},
		{"a pure file cannot hide by moving", impurities, map[string]string{
			"logstore/apply.go": "package logstore\n", "logstore/state.go": "package logstore\n", "logstore/shard.go": "package logstore\n",
			"logstore/offsetset.go": "package logstore\n",
		}, []string{"logstore/kv.go is named as pure and does not exist"}},

		{"packages with comments", packagesWithoutComment, map[string]string{
			"main.go":      "// Polylog is a broker.\npackage main\n",
			"a/doc.go":     "// Package a is for tests.\npackage a\n",
			"a/a.go":       "package a\n",
			"a/a_test.go":  "package a_test\n",
			"b/testdata/x": "no Go",
		}, nil},
		{"a package without", packagesWithoutComment, map[string]string{
			"main.go":     "package main\n",
			"a/a.go":      "// Package b is misnamed.\npackage a\n",
			"c/c.go":      "// Package c is far away.\n\npackage c\n",
			"d/d_test.go": "package d\n",
		}, []string{"a: package a", "c: package c", "d: package d", ".: package main"}},

		{"names that say something", vagueNames, map[string]string{
			"logstore/offsetset.go": "package logstore\n", "viewlayer/group/share.go": "package group\n", "commonality/utility.go": "package commonality\n",
		}, nil},
		{"names that do not", vagueNames, map[string]string{
			"a/misc/a.go":        "package a\n",
			"b/log_util.go":      "package b\n",
			"c/helpers_test.go":  "package c\n",
			"d/d.go":             "package common\n",
			"internal/shared.go": "package internal\n",
		}, []string{`a/misc/a.go: "misc"`, `b/log_util.go: "log_util.go"`, `c/helpers_test.go: "helpers_test.go"`, `d/d.go: package "common"`, `internal/shared.go: "shared.go"`}},

		{"files of a size to read", longFiles, map[string]string{
			"a/full.go":     "package a\n" + strings.Repeat("\n", linesMax-2),
			"a/spec_gen.go": "// Code generated by gen; DO NOT EDIT.\n\npackage a\n" + strings.Repeat("\n", linesMax),
			"a/a_test.go":   "package a\n" + strings.Repeat("\n", linesMax),
		}, nil},
		{"a file that is too long", longFiles, map[string]string{
			"a/long.go": "package a\n" + strings.Repeat("\n", linesMax),
		}, []string{"a/long.go has 801 lines"}},

		{"links that lead somewhere", deadLinks, map[string]string{
			"README.md":   "[a](docs/a.md) [b](docs/) [c](LICENSE) [d](https://example.org/x) [e](#top) [f](docs/a.md#part)",
			"docs/a.md":   "[up](../README.md) [here](a.md)",
			"LICENSE":     "see [x](nowhere)",
			"a/b/data.go": "package b\n",
		}, nil},
		{"links that do not", deadLinks, map[string]string{
			"README.md": "[a](docs/b.md)",
			"docs/a.md": "[up](README.md#top), [a](a.md)",
		}, []string{"README.md links to docs/b.md", "docs/a.md links to README.md"}},

		{"clean text", foreignText, map[string]string{
			"README.md": "The network/ and the farms; todo lists; METHODOLOGY", "a/a.go": "package a\n// sit.Skip(3) passes over three bytes.\n",
			"golden.bin": "\x00/" + "work/",
		}, nil},
		{"foreign text", foreignText, map[string]string{
			".ci/run":      "cd /" + "work/main\n",
			"README.md":    "\nsee /" + "farm/a\n",
			"a/a.go":       "package a\n// " + "TO" + "DO: finish\n",
			"a/a_test.go":  "package a\nfunc f() { t.S" + "kip(\"later\"); b.S" + "kipNow(); t.S" + "kipf(\"%d\", 1) }\n",
			"docs/plan.md": "FIX" + "ME",
		}, []string{".ci/run:1: ", "README.md:2: ", "a/a.go:2: ", "a/a_test.go:2: ", "docs/plan.md:1: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := fstest.MapFS{}
			for name, text := range c.files {
				tree[name] = &fstest.MapFile{Data: []byte(text)}
			}
			s, err := readSource(tree)
			if err != nil {
				t.Fatal(err)
			}
			got := c.check(s)
			for i, g := range got {
				if i >= len(c.want) || !strings.Contains(g, c.want[i]) {
					t.Errorf("found %q, which the case does not expect there", g)
				}
			}
			for _, w := range c.want[min(len(got), len(c.want)):] {
				t.Errorf("did not find %q", w)
			}
		})
	}
}

func TestUnreadableSourceIsAnError(t *testing.T) {
	tree := fstest.MapFS{"a/a.go": {Data: []byte("package a\nfunc {")}}
	if _, err := readSource(tree); err == nil || !strings.Contains(err.Error(), "a/a.go") {
		t.Errorf("error is %v, want one that names a/a.go", err)
	}
}

func TestEveryFolderOfTheOrderHasOneRule(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range importRules {
		if seen[r.from] {
			t.Errorf("two rules for %s", r.from)
		}
		seen[r.from] = true
	}
}
