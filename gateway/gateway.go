package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"polylog/cluster"
	"polylog/gateway/admin"
	"polylog/gateway/config"
	"polylog/gateway/metrics"
	"polylog/logstore"
	"polylog/logstore/vfs"
	"polylog/protocols/amqp"
	"polylog/protocols/kafka"
)

// Options are what a Gateway is made of.
type Options struct {
	Config  *config.Config
	Version string
	Log     *zap.Logger
	// AddressesFile is where the addresses are written once connections are accepted (see addresses.go). Empty: nowhere.
	AddressesFile string

	fs   vfs.FS        // of the log; nil is the operating system's
	peer *cluster.Peer // nil: this node is alone
}

// Gateway is a broker process.
type Gateway struct {
	opts Options
	plan *plan
	log  *zap.Logger
	now  func() time.Time

	store     *logstore.Store
	node      *cluster.Node // nil: this node is alone
	views     *views
	listeners []*listener
	fronts    []front
	amqp      *amqp.Server  // nil if it is off
	kafka     *kafka.Server // likewise
	httpLn    net.Listener
	admin     *admin.Server

	began     time.Time
	opened    atomic.Bool // log and views are there
	accepting atomic.Bool
	all       *room

	loops     sync.WaitGroup // of maintain.go
	stopLoops context.CancelFunc
}

// front is a front-end under its protocol's name.
type front struct {
	protocol string
	frontEnd
}

// New opens the log, the views and the sockets. After it Run must be called, or Close.
func New(ctx context.Context, o Options) (_ *Gateway, err error) {
	g := &Gateway{opts: o, plan: newPlan(o.Config), log: o.Log, now: time.Now, began: time.Now(), stopLoops: func() {}}
	g.all = &room{}
	g.log.Info("starting", zap.String("version", o.Version), zap.String("go", runtime.Version()), zap.Int("pid", os.Getpid()), zap.String("node", o.Config.Node),
		zap.Any("set", o.Config.Set()))
	for _, w := range o.Config.Warnings {
		g.log.Warn(w)
	}
	if g.all.max, err = g.connectionsMax(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	if o.peer == nil {
		err = g.openStore()
	} else if err = g.openSockets(); err == nil {
		g.serveHTTP() // it may take long until enough nodes are there, and one wants to see why
		err = g.joinCluster(ctx)
	}
	if err != nil {
		return nil, err
	}
	g.forgetAddresses() // of a process before this one that could not
	if err := g.openViews(ctx); err != nil {
		return nil, fmt.Errorf("opening what is in the log: %w", err)
	}
	if o.peer == nil {
		if err := g.openSockets(); err != nil {
			return nil, err
		}
	}
	if err := g.makeFronts(); err != nil {
		return nil, err
	}
	return g, nil
}

// serveHTTP starts to answer on the administration listener.
func (g *Gateway) serveHTTP() {
	if g.httpLn != nil {
		g.admin = admin.Start(g.httpLn, admin.Options{
			Metrics: g.metricsHandler(), Health: g.health, Ready: g.ready, Pprof: g.plan.http.pprof, Logf: printer(g.log, "http"), Cluster: g.clusterHandler(),
		})
	}
}

// metricsHandler serves the figures once there are any.
func (g *Gateway) metricsHandler() http.Handler {
	h := metrics.Handler(g.snapshot)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.opened.Load() {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// LockedError means that another process has the data directory.
type LockedError struct {
	Dir string
	PID int // of that process; 0 if it is not known
}

func (e *LockedError) Error() string {
	by := "another process"
	if e.PID != 0 {
		by = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("the data directory %s is in use by %s, and one process at a time may use it: stop that one, or name another directory with --data", e.Dir, by)
}

// openStore opens the log.
func (g *Gateway) openStore() error {
	dir, err := filepath.Abs(g.plan.store.Dir)
	if err != nil {
		return fmt.Errorf("finding the data directory: %w", err)
	}
	o := g.plan.store
	o.Dir, o.FS, o.Logf = dir, g.opts.fs, printer(g.log, "log")
	began := g.now()
	s, err := logstore.Open(o)
	if err != nil {
		return g.openError(dir, err)
	}
	g.store = s
	g.logOpened(dir, began)
	return nil
}

// openError says why the log could not be opened.
func (g *Gateway) openError(dir string, err error) error {
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return &LockedError{dir, lockHolder(dir)}
	case errors.As(err, new(*logstore.CorruptError)):
		return fmt.Errorf("opening the log in %s: %w; 'polylog check %s' says what is wrong with it, and with -repair drops what is damaged", dir, err, dir)
	}
	return fmt.Errorf("opening the log in %s: %w", dir, err)
}

// logOpened says what the opening of the log has found.
func (g *Gateway) logOpened(dir string, began time.Time) {
	o, r := &g.plan.store, &g.store.Recovery
	g.log.Info("the log is open", zap.String("dir", dir), zap.Stringer("sync", o.Sync), zap.Int64("replayed_entries", r.ReplayedEntries),
		zap.Int64("replayed_bytes", r.ReplayedBytes), zap.Duration("took", g.now().Sub(began)))
	if r.TornFile != "" {
		g.log.Warn("the end of the log was never confirmed and was cut off, as after a crash", zap.String("file", r.TornFile), zap.Int64("at", r.TornAt))
	}
	for _, bad := range r.BadCheckpoints {
		g.log.Warn("a damaged checkpoint was passed over", zap.String("file", bad))
	}
	for _, name := range r.RebuiltIndexes {
		g.log.Warn("an index was made anew", zap.String("file", name))
	}
	if o.Sync != logstore.SyncAlways {
		g.log.Warn("confirmed messages may be lost when the power fails, as sync.policy says", zap.Stringer("sync", o.Sync))
	}
}

// openSockets listens, and accepts nothing yet.
func (g *Gateway) openSockets() error {
	for _, p := range g.plan.listeners {
		ln, err := listen(p.protocol+".listen", p.addr, p.source)
		if err != nil {
			return err
		}
		g.listeners = append(g.listeners, &listener{
			name: p.protocol, ln: ln, log: g.log.Named(p.protocol), now: g.now, own: room{max: p.most}, all: g.all,
		})
	}
	if p := g.plan.http; p.addr != "" {
		ln, err := listen("http.listen", p.addr, p.source)
		if err != nil {
			return err
		}
		g.httpLn = ln
	}
	return nil
}

// Run serves until ctx ends, and then brings everything to an orderly end; or until the log fails, which is its error. It is called once.
func (g *Gateway) Run(ctx context.Context) error {
	loops, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.stopLoops = stop
	failed := g.maintain(loops)
	for _, l := range g.listeners {
		l.start()
	}
	g.opened.Store(true)
	if g.admin == nil {
		g.serveHTTP()
	}
	g.accepting.Store(true)
	if err := g.announce(); err != nil {
		return errors.Join(err, g.Close())
	}
	var over <-chan struct{}
	if g.node != nil {
		over = g.node.Over()
	}
	var cause error
	select {
	case <-over:
		// Others already have what the clients of this node held: nothing that they are told from here on counts.
		cause = &membershipError{g.node.Err()}
		g.log.Error("dropping all connections and beginning anew", zap.Error(cause))
		return errors.Join(cause, g.Close())
	case <-ctx.Done():
		g.log.Info("stopping", zap.NamedError("cause", context.Cause(ctx)))
	case cause = <-failed:
		cause = fmt.Errorf("the log takes no more writes: %w; what was confirmed is on the disk; start again when the disk is in order", cause)
		g.log.Error("stopping", zap.Error(cause))
	}
	err := g.drain(context.WithoutCancel(ctx), cause != nil)
	if cause != nil {
		return cause // of which the log speaks again when it is closed
	}
	return err
}

// announce says where clients find what, in the log and in the file of addresses.
func (g *Gateway) announce() error {
	a := g.Addresses()
	for _, l := range g.listeners {
		g.log.Info("listening", zap.String("protocol", l.name), zap.String("address", a[l.name]), zap.Int64("connections_max", l.own.max))
		if l.name == "kafka" && !onlyHere(l.ln.Addr()) {
			g.log.Warn("Kafka clients do not log in in this version: whoever reaches this address may read and write everything in the vhost /", zap.String("address", a[l.name]))
		}
	}
	if g.httpLn != nil {
		g.log.Info("listening", zap.String("protocol", "http"), zap.String("address", a["http"]), zap.Bool("pprof", g.plan.http.pprof))
		if g.plan.http.pprof && !onlyHere(g.httpLn.Addr()) {
			g.log.Warn("profiles are served to whoever reaches this address; each costs processor time", zap.String("address", a["http"]))
		}
	}
	g.log.Info("ready", zap.Duration("took", g.now().Sub(g.began)))
	if g.opts.AddressesFile == "" {
		return nil
	}
	return writeAddresses(g.opts.AddressesFile, a)
}

// onlyHere reports whether an address can be reached from this machine only.
func onlyHere(a net.Addr) bool {
	t, is := a.(*net.TCPAddr)
	return is && t.IP.IsLoopback()
}

// Addresses returns where each protocol ("amqp", "kafka", "http") is served: as it really is, also when port 0 was asked for.
func (g *Gateway) Addresses() map[string]string {
	a := map[string]string{}
	for _, l := range g.listeners {
		a[l.name] = l.ln.Addr().String()
	}
	if g.httpLn != nil {
		a["http"] = g.httpLn.Addr().String()
	}
	return a
}

// health says why the process should be restarted, if it should.
func (g *Gateway) health() error {
	if !g.opened.Load() {
		return nil
	}
	if err := g.store.Failure(); err != nil {
		return fmt.Errorf("the log takes no more writes: %w", err)
	}
	return nil
}

// ready says why no clients should come now, if they should not.
func (g *Gateway) ready() error {
	if err := g.health(); err != nil {
		return err
	}
	if !g.accepting.Load() {
		return errors.New("not accepting connections")
	}
	if err := g.store.Available(); err != nil {
		return err
	}
	return nil
}
