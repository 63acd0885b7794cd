package gateway

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"polylog/cluster"
	"polylog/gateway/config"
	"polylog/protocols/kafka"
)

// Serve runs a broker until ctx ends. A node of a cluster that the others declared gone, or whose log can follow the order no more, drops its connections and begins anew.
func Serve(ctx context.Context, o Options) error {
	if o.Config.Clustered() {
		if err := os.MkdirAll(o.Config.Data, 0o750); err != nil {
			return fmt.Errorf("the broker could not start: making the data directory: %w", err)
		}
		co := newPlan(o.Config).cluster
		co.Logf = printer(o.Log, "cluster")
		p, err := cluster.Start(co)
		if err != nil {
			return fmt.Errorf("the broker could not start: %w", err)
		}
		defer p.Close() //nolint:errcheck // what it has is on the disk
		o.peer = p
	}
	for {
		g, err := New(ctx, o)
		if err != nil && ctx.Err() == nil && (errors.Is(err, cluster.ErrGone) || errors.As(err, new(*cluster.BehindError))) {
			o.Log.Error("beginning anew", zap.Error(err))
			select {
			case <-ctx.Done():
			case <-time.After(anewPause):
			}
			continue
		}
		if err != nil && o.peer != nil && ctx.Err() != nil {
			return nil // it was told to end while it waited for the other nodes
		}
		if err != nil {
			return fmt.Errorf("the broker could not start: %w", err)
		}
		err = g.Run(ctx)
		var over *membershipError
		if !errors.As(err, &over) || ctx.Err() != nil {
			return err
		}
	}
}

// anewPause is how long a node waits that could not even begin.
const anewPause = time.Second

// membershipError means that this node's part in the cluster is over, and that it can begin anew.
type membershipError struct{ err error }

func (e *membershipError) Error() string {
	return fmt.Sprintf("this node's part in the cluster is over: %v", e.err)
}
func (e *membershipError) Unwrap() error { return e.err }

// clusterOptions is what the configuration says of the cluster.
func clusterOptions(c *config.Config) cluster.Options {
	k := &c.Cluster
	dir, err := filepath.Abs(c.Data)
	if err != nil {
		dir = c.Data
	}
	return cluster.Options{
		Name: k.Name, Node: c.Node, Dir: dir, Listen: k.Listen, Advertise: k.Advertise, Seeds: k.Seeds, Secret: k.Secret, External: k.NATS, Replicas: k.Replicas,
		StreamBytes: k.StreamBytes, BacklogBytes: k.BacklogBytes, GoneAfter: k.GoneAfter,
	}
}

// joinCluster opens the log as a node of the cluster, and makes this process a member. Sockets are open already, so that their addresses can be told.
func (g *Gateway) joinCluster(ctx context.Context) error {
	dir, err := filepath.Abs(g.plan.store.Dir)
	if err != nil {
		return fmt.Errorf("finding the data directory: %w", err)
	}
	o := g.plan.store
	o.Dir, o.FS, o.Logf = dir, g.opts.fs, printer(g.log, "log")
	began := g.now()
	if g.node, err = g.opts.peer.Open(ctx, o); err != nil {
		return g.openError(dir, err)
	}
	g.store = g.node.Store()
	g.logOpened(dir, began)
	m := cluster.Member{Version: g.opts.Version, Serves: map[string]string{}}
	if g.opts.Config.Source("kafka.node_id") != "the default" {
		m.ID = int32(g.opts.Config.Kafka.NodeID)
	}
	for _, l := range g.listeners {
		m.Serves[l.name] = g.published(l.ln.Addr())
	}
	if g.httpLn != nil {
		m.Serves["http"] = g.published(g.httpLn.Addr())
	}
	if c := g.opts.Config.Cluster; c.Advertise != "" {
		m.Serves["cluster"] = c.Advertise
	} else if c.Listen != "" {
		m.Serves["cluster"] = c.Listen
	}
	if a := g.plan.advertise; a != "" {
		m.Serves["kafka"] = a
	}
	_, err = g.node.Join(ctx, m)
	return err
}

// published is how others than this machine reach a socket: a socket on all addresses is reached where the other nodes reach this one.
func (g *Gateway) published(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		return a.String()
	}
	for _, known := range []string{g.opts.Config.Cluster.Advertise, g.opts.Config.Cluster.Listen} {
		if h, _, err := net.SplitHostPort(known); err == nil && h != "" && h != "0.0.0.0" && h != "::" {
			return net.JoinHostPort(h, port)
		}
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return net.JoinHostPort(host, port)
}

// brokers are the live nodes as Kafka clients know them. A node that serves no Kafka is none.
func (g *Gateway) brokers(net.Conn) []kafka.Broker {
	var bs []kafka.Broker
	for _, m := range g.node.Live() {
		if a := m.Serves["kafka"]; a != "" {
			host, port := split(a)
			bs = append(bs, kafka.Broker{ID: m.ID, Host: host, Port: port})
		}
	}
	return bs
}

// brokerID is this node's number among them.
func (g *Gateway) brokerID() int32 {
	for _, m := range g.node.Members() {
		if m.Name == g.opts.Config.Node {
			return m.ID
		}
	}
	return 0
}

// brokerIDs are the numbers of the live nodes that serve Kafka.
func (g *Gateway) brokerIDs() []int32 {
	bs := g.brokers(nil)
	ids := make([]int32, len(bs))
	for i := range bs {
		ids[i] = bs[i].ID
	}
	return ids
}

// isOver reports whether this node's part in the cluster has ended by itself.
func (g *Gateway) isOver() bool {
	if g.node == nil {
		return false
	}
	select {
	case <-g.node.Over():
		return true
	default:
		return false
	}
}

// leads reports whether this node does what one node does for all.
func (g *Gateway) leads() bool { return g.node == nil || g.node.Leads() }

const (
	reapEvery  = 5 * time.Second // though nothing seems to have changed
	idleLeader = time.Second     // between two looks whether this node leads now
)

// ifLeading makes a round that only the leader does.
func (g *Gateway) ifLeading(round func(ctx context.Context) (time.Duration, error)) func(ctx context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		if !g.leads() || g.store.Available() != nil {
			return idleLeader, nil
		}
		return round(ctx)
	}
}

// mindMembers does what is to be done when the members change: groups go to the nodes that are there, and the leader brings back what the others held. Each has a goroutine of its own, since
// one may wait for the order while the other must not.
func (g *Gateway) mindMembers(ctx context.Context) {
	reap := make(chan struct{}, 1)
	g.loops.Go(func() { g.reapWhen(ctx, reap) })
	var known []int32
	for first := true; ; first = false {
		if ids := g.brokerIDs(); first || !slices.Equal(ids, known) {
			known = ids
			g.views.groups.Reassigned()
		}
		select {
		case reap <- struct{}{}:
		default:
		}
		select {
		case <-ctx.Done():
			return
		case <-g.node.Changed():
		}
	}
}

// reapWhen brings back what nodes held that are gone, when it is told to, and now and then.
func (g *Gateway) reapWhen(ctx context.Context, told <-chan struct{}) {
	t := time.NewTicker(reapEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-told:
		case <-t.C:
		}
		if !g.leads() || g.store.Available() != nil {
			continue
		}
		if err := g.views.queues.Reap(ctx, g.node.Dead); err != nil && ctx.Err() == nil {
			g.log.Warn("bringing back what nodes held that are gone failed and is tried again", zap.Error(err))
		}
	}
}

// clusterHandler tells of the cluster, and removes nodes for who knows the cluster's secret. nil: this node is alone.
func (g *Gateway) clusterHandler() http.Handler {
	if g.opts.peer == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cluster", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.Encode(g.node.Status(r.Context())) //nolint:errcheck // the client is gone
	})
	mux.HandleFunc("GET /cluster/hash", func(w http.ResponseWriter, _ *http.Request) {
		// Nodes that have applied the same part of the order have the same hash. It costs a walk over all keys and shards.
		seq, hash := g.store.Hash()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, "{\"seq\": %d, \"hash\": \"%016x\"}\n", seq, hash) //nolint:errcheck // the client is gone
	})
	mux.HandleFunc("DELETE /cluster/{node}", func(w http.ResponseWriter, r *http.Request) {
		given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		secret := g.opts.Config.Cluster.Secret
		if secret == "" || subtle.ConstantTimeCompare([]byte(given), []byte(secret)) != 1 { // without one nobody knows it
			http.Error(w, "the cluster's secret (cluster.secret) is needed for this, as a bearer token", http.StatusUnauthorized)
			return
		}
		if err := g.node.Remove(r.Context(), r.PathValue("node")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.opened.Load() {
			http.Error(w, "this node is starting and is no member yet", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
