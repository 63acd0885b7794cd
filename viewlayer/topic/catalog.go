package topic

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"polylog/logstore"
)

// Options are what a catalog needs of the world.
type Options struct {
	Store *logstore.Store
	Now   func() time.Time
	NewID func() ID // a random one; two are never equal
}

// Dependent is a view that keeps something for topics, which shall go with them.
type Dependent interface {
	// Creating returns the operations that note what the view keeps for a topic from its beginning. They are part of the transaction that makes it.
	Creating(t *Topic) []logstore.Op
	// Deleting returns the operations that take away what the view keeps for the topic. They are part of the transaction that deletes it.
	Deleting(t *Topic) []logstore.Op
	// Deleted is called when the topic is gone.
	Deleted(t *Topic)
}

// Catalog finds, makes and deletes topics. Its methods may be called from any goroutine.
type Catalog struct {
	store *logstore.Store
	now   func() time.Time
	newID func() ID

	mu    sync.RWMutex
	known map[place]*Topic // decoded topics; one is used only while the store has the very same value

	views []Dependent
}

// place is where a topic is.
type place struct{ namespace, name string }

// Open returns the catalog of a store's topics.
func Open(o Options) *Catalog {
	return &Catalog{store: o.Store, now: o.Now, newID: o.NewID, known: map[place]*Topic{}}
}

// Store returns the log that the topics are in.
func (c *Catalog) Store() *logstore.Store { return c.store }

// Attach makes a view's part go with the topics. It is called before the catalog is used.
func (c *Catalog) Attach(d Dependent) { c.views = append(c.views, d) }

const (
	topicPrefix  = "t/"
	shardPrefix  = "s/"
	idPrefix     = "i/"
	digestPrefix = "k/"
)

func namespaced(prefix, namespace, name string) string {
	return prefix + string([]byte{byte(len(namespace))}) + namespace + name
}

// splitKey takes a topic's key apart.
func splitKey(key string) (p place, ok bool) {
	rest, ok := strings.CutPrefix(key, topicPrefix)
	if !ok || rest == "" || len(rest) < 1+int(rest[0]) {
		return place{}, false
	}
	n := int(rest[0])
	return place{rest[1 : 1+n], rest[1+n:]}, true
}

func shardKey(id ID, partition int) string {
	return shardPrefix + hex.EncodeToString(id[:]) + "/" + strconv.Itoa(partition)
}

// Find returns the topic of this name, or an *UnknownError. It sees every change that has its place in the order, though the change may not be on the
// disk yet. It costs two map look-ups when the topic has not changed since the last call.
func (c *Catalog) Find(namespace, name string) (*Topic, error) {
	c.mu.RLock()
	t := c.known[place{namespace, name}]
	c.mu.RUnlock()
	return c.refresh(t, namespace, name)
}

// FindSurely is Find for callers to whom it matters that a topic is not there: one that another node has made before the call is found.
func (c *Catalog) FindSurely(ctx context.Context, namespace, name string) (*Topic, error) {
	t, err := c.Find(namespace, name)
	var unknown *UnknownError
	if !errors.As(err, &unknown) || !c.store.IsFollowing() {
		return t, err
	}
	if err := c.store.CatchUp(ctx); err != nil {
		return nil, err
	}
	return c.Find(namespace, name)
}

// FindBytes is Find for a name that lies in a buffer; it does not keep it.
func (c *Catalog) FindBytes(namespace string, name []byte) (*Topic, error) {
	c.mu.RLock()
	t := c.known[place{namespace, string(name)}]
	c.mu.RUnlock()
	if t != nil {
		return c.refresh(t, t.Namespace, t.Name)
	}
	return c.refresh(nil, namespace, string(name))
}

// refresh returns t if it is what the store has, and what the store has if not.
func (c *Catalog) refresh(t *Topic, namespace, name string) (*Topic, error) {
	if t != nil {
		if raw, ok := c.store.Get(t.key); ok && same(raw, t.raw) {
			return t, nil
		}
	}
	if len(namespace) > 255 {
		return nil, &UnknownError{namespace, name}
	}
	return c.load(namespaced(topicPrefix, namespace, name), place{namespace, name})
}

// same reports whether two values are equal; those of the store are never changed, so the same address is the same value.
func same(a, b []byte) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] || bytes.Equal(a, b)
}

// load reads a topic from the store.
func (c *Catalog) load(key string, p place) (*Topic, error) {
	for {
		raw, ok := c.store.Get(key)
		if !ok {
			c.forget(p)
			return nil, &UnknownError{p.namespace, p.name}
		}
		t := &Topic{Namespace: p.namespace, Name: p.name, key: key, raw: raw}
		n, err := t.decode(raw)
		if err != nil {
			return nil, fmt.Errorf("topic '%s' in vhost '%s': %w", p.name, p.namespace, err)
		}
		t.Shards = make([]logstore.Shard, n)
		whole := true
		for i := range t.Shards {
			v, _ := c.store.Get(shardKey(t.ID, i))
			if t.Shards[i], err = logstore.ParseShardValue(v); err != nil {
				whole = false
				break
			}
		}
		if !whole {
			if now, ok := c.store.Get(key); !ok || !same(now, raw) {
				continue // it was deleted between the two looks
			}
			return nil, fmt.Errorf("topic '%s' in vhost '%s' has partitions without a shard: %w", p.name, p.namespace, err)
		}
		c.mu.Lock()
		c.known[p] = t
		c.mu.Unlock()
		return t, nil
	}
}

func (c *Catalog) forget(p place) {
	c.mu.Lock()
	delete(c.known, p)
	c.mu.Unlock()
}

// FindID returns the topic with this identity, or an *UnknownIDError.
func (c *Catalog) FindID(id ID) (*Topic, error) {
	key, ok := c.store.Get(idPrefix + string(id[:]))
	if !ok {
		return nil, &UnknownIDError{id}
	}
	p, ok := splitKey(string(key))
	if !ok {
		return nil, fmt.Errorf("the topic with id %x is said to be under the key %q, which is none of a topic", id[:], key)
	}
	t, err := c.Find(p.namespace, p.name)
	var unknown *UnknownError
	if errors.As(err, &unknown) || err == nil && t.ID != id {
		return nil, &UnknownIDError{id}
	}
	return t, err
}

// List returns the topics of a namespace in the order of their names.
func (c *Catalog) List(namespace string) ([]*Topic, error) {
	return c.scan(namespaced(topicPrefix, namespace, ""))
}

// All returns the topics of all namespaces.
func (c *Catalog) All() ([]*Topic, error) { return c.scan(topicPrefix) }

func (c *Catalog) scan(prefix string) ([]*Topic, error) {
	var places []place
	c.store.Scan(prefix, func(key string, _ []byte) bool {
		if p, ok := splitKey(key); ok {
			places = append(places, p)
		}
		return true
	})
	ts := make([]*Topic, 0, len(places))
	for _, p := range places {
		t, err := c.Find(p.namespace, p.name)
		var unknown *UnknownError
		if errors.As(err, &unknown) {
			continue // deleted since the scan
		}
		if err != nil {
			return nil, err
		}
		ts = append(ts, t)
	}
	return ts, nil
}

// Create makes a topic, durably. It returns an *ExistsError with the topic that has the name already, a *NameError, *PartitionsError or *ConfigError for a
// wish that no topic can fulfil, or the store's error.
func (c *Catalog) Create(ctx context.Context, s Spec) (*Topic, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	t := s.topic()
	t.ID, t.Created = c.newID(), c.now().UnixMilli()
	key := namespaced(topicPrefix, s.Namespace, s.Name)
	ops := make([]logstore.Op, 0, s.Partitions+3)
	for i := range s.Partitions {
		ops = append(ops, logstore.CreateShard(shardKey(t.ID, i)))
	}
	ops = append(ops, logstore.Put(key, t.encode(s.Partitions)), logstore.Put(idPrefix+string(t.ID[:]), []byte(key)))
	if digest, ok := digestName(s.Name); ok {
		ops = append(ops, logstore.Put(namespaced(digestPrefix, s.Namespace, digest), []byte(s.Name)))
	}
	for _, v := range c.views {
		ops = append(ops, v.Creating(t)...)
	}
	for {
		_, err := c.store.Commit(ctx, logstore.Txn{If: []logstore.Condition{logstore.KeyAbsent(key)}, Do: ops})
		if err != nil && !errors.Is(err, logstore.ErrConflict) {
			return nil, fmt.Errorf("creating topic '%s': %w", s.Name, err)
		}
		found, findErr := c.Find(s.Namespace, s.Name)
		var unknown *UnknownError
		switch {
		case err != nil && errors.As(findErr, &unknown):
			continue // it was there a moment ago, and is gone
		case findErr != nil:
			return nil, findErr
		case err != nil:
			return nil, &ExistsError{found}
		}
		return found, nil
	}
}

// check holds the wish to what a topic can be.
func (s *Spec) check() error {
	if s.Partitions < 1 || s.Partitions > PartitionsMax {
		return &PartitionsError{s.Partitions}
	}
	if len(s.Namespace) > 255 {
		return &NameError{Name: s.Namespace, Reason: "a namespace has at most 255 bytes"}
	}
	if s.Name == "" || len(s.Name) > 255 {
		return &NameError{Name: s.Name, Reason: "a topic's name has 1 to 255 bytes"}
	}
	return CheckConfig(s.Config)
}

// Delete deletes the topic with its records, and what views keep for it, durably. also is done in the same transaction, which has no effect and is an error
// that matches logstore.ErrConflict when a condition of only does not hold. A topic that is gone, or is not this one any more, is an *UnknownError.
func (c *Catalog) Delete(ctx context.Context, t *Topic, only ...logstore.Condition) error {
	for {
		ops := make([]logstore.Op, 0, 2*len(t.Shards)+4)
		for i, sh := range t.Shards {
			ops = append(ops, logstore.DropShard(sh), logstore.Remove(shardKey(t.ID, i)))
		}
		ops = append(ops, logstore.Remove(t.key), logstore.Remove(idPrefix+string(t.ID[:])))
		if digest, ok := digestName(t.Name); ok {
			ops = append(ops, logstore.Remove(namespaced(digestPrefix, t.Namespace, digest)))
		}
		for _, v := range c.views {
			ops = append(ops, v.Deleting(t)...)
		}
		_, err := c.store.Commit(ctx, logstore.Txn{If: append([]logstore.Condition{t.Unchanged()}, only...), Do: ops})
		if errors.Is(err, logstore.ErrConflict) {
			now, findErr := c.Find(t.Namespace, t.Name)
			if findErr != nil {
				return findErr
			}
			if now.ID != t.ID {
				return &UnknownError{t.Namespace, t.Name}
			}
			if now != t {
				t = now // its configuration changed
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("deleting topic '%s': %w", t.Name, err)
		}
		c.forget(place{t.Namespace, t.Name})
		for _, v := range c.views {
			v.Deleted(t)
		}
		return nil
	}
}

// FindKafka returns the topic that Kafka clients of the namespace know by this name: an *UnknownError if there is none, a *NameError if there can be none.
func (c *Catalog) FindKafka(namespace, kafkaName string) (*Topic, error) {
	if v, ok := c.store.Get(namespaced(digestPrefix, namespace, kafkaName)); ok {
		return c.Find(namespace, string(v))
	}
	name, err := FromKafkaName(kafkaName)
	if err != nil {
		return nil, err
	}
	return c.Find(namespace, name)
}
