package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"polylog/logstore"
)

// trio is three nodes in this process, on loopback.
type trio struct {
	t     testing.TB
	seeds []string
	nodes []*member
}

type member struct {
	t    *trio
	i    int
	name string
	dir  string
	p    *Peer
	n    *Node
}

func freeAddress(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func newTrio(t testing.TB) *trio {
	c := &trio{t: t}
	for i := range 3 {
		c.seeds = append(c.seeds, freeAddress(t))
		c.nodes = append(c.nodes, &member{t: c, i: i, name: fmt.Sprintf("n%d", i+1), dir: t.TempDir()})
	}
	t.Cleanup(func() {
		var wg sync.WaitGroup
		for _, m := range c.nodes {
			wg.Go(m.stop)
		}
		wg.Wait()
	})
	return c
}

func (m *member) options() Options {
	return Options{
		Name: "test", Node: m.name, Dir: m.dir, Listen: m.t.seeds[m.i], Seeds: m.t.seeds, Secret: "secret", GoneAfter: 3 * time.Second,
		Logf: func(f string, a ...any) { m.t.t.Logf(m.name+": "+f, a...) },
	}
}

func (m *member) start(ctx context.Context) error {
	var err error
	if m.p, err = Start(m.options()); err != nil {
		return err
	}
	if m.n, err = m.p.Open(ctx, logstore.Options{Dir: m.dir}); err != nil {
		return err
	}
	_, err = m.n.Join(ctx, Member{})
	return err
}

func (m *member) stop() {
	if m.n != nil {
		if err := m.n.Close(); err != nil {
			m.t.t.Errorf("closing %s: %v", m.name, err)
		}
		m.n = nil
	}
	if m.p != nil {
		m.p.Close()
		m.p = nil
	}
}

func (c *trio) start() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, m := range c.nodes {
		wg.Go(func() {
			if err := m.start(ctx); err != nil {
				c.t.Errorf("starting %s: %v", m.name, err)
			}
		})
	}
	wg.Wait()
	if c.t.Failed() {
		c.t.FailNow()
	}
}

func (c *trio) await(what string, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("still not: %s", what)
		}
	}
}

func (c *trio) equal() {
	c.t.Helper()
	var h [3]uint64
	var seq [3]uint64
	c.await("equal state on all nodes", func() bool {
		for i, m := range c.nodes {
			seq[i], h[i] = m.n.store.Hash()
		}
		return h[0] == h[1] && h[1] == h[2]
	})
}

func TestThreeNodesAreOne(t *testing.T) {
	c := newTrio(t)
	began := time.Now()
	c.start()
	t.Logf("started in %v", time.Since(began))
	ctx := context.Background()
	var wg sync.WaitGroup
	for _, m := range c.nodes {
		wg.Go(func() {
			for i := range 300 {
				if _, err := m.n.store.Commit(ctx, logstore.Txn{Do: []logstore.Op{logstore.Put(fmt.Sprintf("%s/%d", m.name, i), []byte("v"))}}); err != nil {
					t.Error(err)
				}
			}
			// A counter that all raise.
			for range 30 {
				for {
					raw, ok := m.n.store.Get("counter")
					is := logstore.KeyAbsent("counter")
					k := 0
					if ok {
						is = logstore.KeyIs("counter", raw)
						fmt.Sscan(string(raw), &k)
					}
					_, err := m.n.store.Commit(ctx, logstore.Txn{If: []logstore.Condition{is}, Do: []logstore.Op{logstore.Put("counter", fmt.Append(nil, k+1))}})
					if err == nil {
						break
					}
					if !errors.Is(err, logstore.ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	t.Logf("done after %v", time.Since(began))
	c.equal()
	for _, m := range c.nodes {
		if v, _ := m.n.store.Get("counter"); string(v) != "90" {
			t.Errorf("%s: counter is %s", m.name, v)
		}
	}
}

func TestANodeWithoutALogBeginsWithACopy(t *testing.T) {
	c := newTrio(t)
	ctx := context.Background()
	c.start()
	for i := range 2000 {
		if _, err := c.nodes[i%2].n.store.Commit(ctx, logstore.Txn{Do: []logstore.Op{logstore.Put(fmt.Sprint("k", i%100), make([]byte, 500))}, Wait: logstore.Relaxed}); err != nil {
			t.Fatal(err)
		}
	}
	away := c.nodes[2]
	away.stop()
	if err := os.RemoveAll(away.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := c.nodes[0].n.store.Commit(ctx, logstore.Txn{Do: []logstore.Op{logstore.Put("while away", nil)}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := away.start(ctx); err != nil {
		t.Fatal(err)
	}
	c.equal()
	if _, err := away.n.store.Commit(ctx, logstore.Txn{Do: []logstore.Op{logstore.Put("back", nil)}}); err != nil {
		t.Fatal(err)
	}
	c.equal()
	c.await("the lost disk's server is removed", func() bool {
		n := 0
		c.nodes[0].n.store.Scan(serverPrefix, func(string, []byte) bool { n++; return true })
		return n == 0
	})
	c.await("all copies are up to date", func() bool {
		st := c.nodes[0].n.Status(ctx)
		return st.Order.Error == "" && len(st.Order.Behind) == 0
	})
}

// TestADamagedCopyOfTheOrderIsNotPassedOver damages the copy of the stream that a node has to read from its beginning: it must come to the others' state all the same.
func TestADamagedCopyOfTheOrderIsNotPassedOver(t *testing.T) {
	c := newTrio(t)
	ctx := context.Background()
	c.start()
	random := make([]byte, 64<<10) // what compresses is healed by the server from what it has compressed
	for i := range 100 {
		rand.Read(random) //nolint:errcheck // crypto/rand does not fail
		if _, err := c.nodes[i%3].n.store.Commit(ctx, logstore.Txn{Do: []logstore.Op{logstore.Put(fmt.Sprint("k", i), random)}}); err != nil {
			t.Fatal(err)
		}
	}
	c.equal()
	ill := c.nodes[2]
	ill.stop()
	blocks, err := filepath.Glob(filepath.Join(ill.dir, "order", "jetstream", "*", "streams", "*", "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatalf("no blocks of the stream are found: %v", err)
	}
	f, err := os.OpenFile(blocks[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("damaged damaged damaged"), 300<<10); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(ill.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names { // the log is lost, the copy of the order is there
		if filepath.Base(name) != "order" {
			if err := os.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := ill.start(ctx); err != nil {
		t.Fatal(err)
	}
	c.equal()
}
