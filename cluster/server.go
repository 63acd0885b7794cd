package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	clientUser = "polylog" // has the stream
	systemUser = "system"  // removes servers that are gone for good
	// payloadMax bounds a message of NATS: the largest chunk and what surrounds it.
	payloadMax = 2 << 20
	// storeMax bounds what JetStream may keep on the disk: the stream (Options.StreamBytes) and its own log of changes.
	storeMax = 1 << 44
	// startLimit is how long an embedded server may take until it accepts connections.
	startLimit = 30 * time.Second
)

// broker is the NATS that carries the order: a server in this process, or one elsewhere.
type broker struct {
	srv  *server.Server // nil: it is elsewhere
	name string         // of srv
	nc   *nats.Conn
}

// startBroker starts the embedded server, or connects to the one outside.
func startBroker(o *Options) (_ *broker, err error) {
	b := &broker{}
	options := []nats.Option{
		nats.Name("polylog " + o.Node), nats.MaxReconnects(-1), nats.ReconnectWait(200 * time.Millisecond), nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1),
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { o.Logf("nats: %v", err) }),
	}
	where := ""
	if len(o.External) > 0 {
		where = o.External[0]
		for _, u := range o.External[1:] {
			where += "," + u
		}
		options = append(options, nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { o.Logf("the connection to %s is lost: %v", where, err) }))
	} else {
		if err := b.startServer(o); err != nil {
			return nil, err
		}
		options = append(options, nats.InProcessServer(b.srv), nats.UserInfo(clientUser, o.Secret))
	}
	if b.nc, err = nats.Connect(where, options...); err != nil {
		b.stop()
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	return b, nil
}

// startServer starts the embedded server.
func (b *broker) startServer(o *Options) error {
	host, port, err := splitAddress(o.Listen)
	if err != nil {
		return fmt.Errorf("cluster.listen: %w", err)
	}
	dir := filepath.Join(o.Dir, "order")
	if b.name, err = serverName(dir, o.Node); err != nil {
		return err
	}
	system := server.NewAccount("SYS")
	opts := &server.Options{
		ServerName: b.name, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true,
		Accounts: []*server.Account{system}, SystemAccount: "SYS",
		Users:      []*server.User{{Username: clientUser, Password: o.Secret}, {Username: systemUser, Password: o.Secret, Account: system}},
		MaxPayload: payloadMax, MaxPending: 256 << 20, MaxControlLine: 4 << 10, WriteDeadline: 10 * time.Second,
		JetStream: true, StoreDir: dir, JetStreamMaxStore: storeMax, JetStreamMaxMemory: 256 << 20, SyncAlways: true, DisableJetStreamBanner: true,
		Cluster: server.ClusterOpts{
			Name: o.Name, Host: host, Port: port, Advertise: o.Advertise, Username: clientUser, Password: o.Secret, PoolSize: 1,
			PingInterval: 2 * time.Second, MaxPingsOut: 2, Compression: server.CompressionOpts{Mode: server.CompressionOff},
		},
	}
	for _, seed := range o.Seeds {
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats", Host: seed, User: url.UserPassword(clientUser, o.Secret)})
	}
	if b.srv, err = server.NewServer(opts); err != nil {
		return fmt.Errorf("the embedded NATS server: %w", err)
	}
	b.srv.SetLoggerV2(natsLog{o.Logf}, false, false, false)
	b.srv.Start()
	if !b.srv.ReadyForConnections(startLimit) {
		b.srv.Shutdown()
		return fmt.Errorf("the embedded NATS server does not listen on %s after %v; is the port taken?", o.Listen, startLimit)
	}
	return nil
}

// serverName returns the name of the server whose disk this is. It is drawn with the disk's first use: a node that comes back with an empty disk must not vote as the one that
// it was, since it has forgotten what it voted for.
func serverName(dir, node string) (string, error) {
	file := filepath.Join(dir, "name")
	b, err := os.ReadFile(file)
	switch {
	case err == nil && len(b) > 0:
		return string(b), nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", err
	}
	name := node + "-" + randomText(6)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	return name, writeFile(file, []byte(name))
}

// writeFile writes a file that is whole or not there.
func writeFile(name string, b []byte) error {
	tmp := name + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, name); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func splitAddress(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(text)
	return host, port, err
}

// natsLog passes what is serious on; the rest is noise of a server that nobody operates by itself.
type natsLog struct {
	logf func(format string, args ...any)
}

func (natsLog) Noticef(string, ...any) {}
func (l natsLog) Warnf(format string, args ...any) {
	if !strings.HasPrefix(format, "Plaintext passwords") { // they are in memory only
		l.logf("nats: "+format, args...)
	}
}
func (l natsLog) Fatalf(format string, args ...any) { l.logf("nats: fatal: "+format, args...) }
func (l natsLog) Errorf(format string, args ...any) { l.logf("nats: "+format, args...) }
func (natsLog) Debugf(format string, args ...any)   {}
func (natsLog) Tracef(format string, args ...any)   {}

// stop ends the connection and the server, in order.
func (b *broker) stop() {
	if b.nc != nil {
		b.nc.Close()
	}
	if b.srv != nil {
		b.srv.Shutdown()
		b.srv.WaitForShutdown()
	}
}
