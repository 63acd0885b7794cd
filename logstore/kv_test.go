package logstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"polylog/logstore/seed"
)

// kvContent is all that a map holds, as scan gives it.
func kvContent(t *testing.T, k *kv) map[string]string {
	t.Helper()
	got := map[string]string{}
	last := ""
	k.scan("", func(key string, value []byte) bool {
		if len(got) > 0 && key <= last {
			t.Fatalf("key %q comes behind %q", key, last)
		}
		last = key
		got[key] = string(value)
		return true
	})
	return got
}

func TestKeyValueSnapshotsAreNotChanged(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	type view struct {
		k    kv
		want map[string]string
	}
	var views []view
	var k kv
	model := map[string]string{}
	for step := range 5000 {
		key := fmt.Sprintf("%c/%d", 'a'+rune(r.IntN(3)), r.IntN(400))
		if r.IntN(3) == 0 {
			_, had := model[key]
			if k.remove(key) != had {
				t.Fatalf("remove(%q) says %v", key, !had)
			}
			delete(model, key)
		} else {
			v := strings.Repeat("v", r.IntN(20)) + fmt.Sprint(step)
			k.put(key, []byte(v))
			model[key] = v
		}
		if v, has := k.get(key); has != (model[key] != "") || string(v) != model[key] {
			t.Fatalf("get(%q) is %q, %v", key, v, has)
		}
		if r.IntN(100) == 0 {
			views = append(views, view{k.snapshot(), maps.Clone(model)})
		}
	}
	views = append(views, view{k, model})
	for i := range views {
		v := &views[i]
		if got := kvContent(t, &v.k); !maps.Equal(got, v.want) {
			t.Fatalf("snapshot %d has %d keys, want %d, or other values", i, len(got), len(v.want))
		}
		bytes := int64(0)
		for key, value := range v.want {
			bytes += int64(len(key) + len(value))
		}
		if v.k.bytes != bytes {
			t.Fatalf("snapshot %d counts %d bytes, it has %d", i, v.k.bytes, bytes)
		}
	}
	// A snapshot may be changed too, and the map does not see it.
	views[0].k.put("new", nil)
	if _, has := k.get("new"); has {
		t.Fatal("a change of the snapshot is seen in the map")
	}
}

func TestScanKeepsToThePrefix(t *testing.T) {
	t.Parallel()
	var k kv
	for _, key := range []string{"", "a", "a/", "a/1", "a/2", "a0", "b", "a\xff", "a/\xff\xff"} {
		k.put(key, []byte(key))
	}
	scan := func(prefix string, limit int) (keys []string) {
		k.scan(prefix, func(key string, _ []byte) bool {
			keys = append(keys, key)
			return len(keys) < limit
		})
		return keys
	}
	for prefix, want := range map[string][]string{
		"a/":     {"a/", "a/1", "a/2", "a/\xff\xff"},
		"a":      {"a", "a/", "a/1", "a/2", "a/\xff\xff", "a0", "a\xff"},
		"c":      nil,
		"a/\x00": nil,
	} {
		if got := scan(prefix, 100); !slices.Equal(got, want) {
			t.Errorf("prefix %q: %q, want %q", prefix, got, want)
		}
	}
	if got := scan("a", 2); len(got) != 2 {
		t.Errorf("it went on to %q", got)
	}
}
