package logstore

import (
	"strings"

	"github.com/tidwall/btree"
)

// kv is the ordered key-value map: a B-tree whose copies share what neither has changed since. Values are never
// changed in place, so they may be handed out.
type kv struct {
	m     btree.Map[string, []byte]
	bytes int64 // of all keys and values
}

func (k *kv) get(key string) ([]byte, bool) { return k.m.Get(key) }

// put stores value itself; the caller gives it away.
func (k *kv) put(key string, value []byte) {
	old, had := k.m.Set(key, value)
	if had {
		k.bytes += int64(len(value) - len(old))
	} else {
		k.bytes += int64(len(key) + len(value))
	}
}

func (k *kv) remove(key string) bool {
	old, had := k.m.Delete(key)
	if had {
		k.bytes -= int64(len(key) + len(old))
	}
	return had
}

// scan calls f for the keys with the prefix, in order, until it returns false.
func (k *kv) scan(prefix string, f func(key string, value []byte) bool) {
	k.m.Ascend(prefix, func(key string, value []byte) bool {
		return strings.HasPrefix(key, prefix) && f(key, value)
	})
}

// snapshot returns a copy in constant time.
func (k *kv) snapshot() kv { return kv{m: *k.m.Copy(), bytes: k.bytes} }
