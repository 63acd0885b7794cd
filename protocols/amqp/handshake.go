package amqp

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/message"
)

// nameShown is how many bytes of a client's name for its connection stand in the log.
const nameShown = 100

// errRefused means that the client was turned away before it was told how to close in order.
var errRefused = errors.New("the client was refused")

// handshake brings the connection from its first byte to connection.open-ok (4.2.2, 2.2.4).
func (c *connection) handshake() error {
	c.sock.SetReadDeadline(time.Now().Add(c.s.limits.HandshakeTimeout)) //nolint:errcheck // the read fails too
	if err := c.version(); err != nil {
		return err
	}
	c.write(&wire.ConnectionStart{
		VersionMinor: 9, ServerProperties: c.s.properties(), Mechanisms: []byte(mechanisms), Locales: []byte("en_US"),
	})
	var start wire.ConnectionStartOk
	if err := c.await(&start); err != nil {
		return err
	}
	if err := c.login(&start); err != nil {
		return err
	}
	if err := c.tune(); err != nil {
		return err
	}
	var open wire.ConnectionOpen
	if err := c.await(&open); err != nil {
		return err
	}
	c.vhost = string(open.VirtualHost)
	if err := c.s.o.Auth.OpenVhost(c.user, c.vhost); err != nil {
		c.s.counts.loginsRefused.Add(1)
		return explainIf(raise(wire.NotAllowed, "%v", err), wire.ConnectionOpenID)
	}
	c.opened = true
	c.write(&wire.ConnectionOpenOk{})
	return nil
}

// version reads the protocol header. Another version of AMQP is told which one is spoken here; what is no AMQP at all is told nothing.
func (c *connection) version() error {
	got, err := c.frames.Raw(len(wire.Header0091))
	if err != nil {
		return err
	}
	switch {
	case string(got) == wire.Header0091:
		return nil
	case string(got[:4]) == wire.Header0091[:4]:
		c.out.Write([]byte(wire.Header0091))
		return fmt.Errorf("%w: it asked for protocol version %d-%d-%d-%d, 0-9-1 is spoken", errRefused, got[4], got[5], got[6], got[7])
	}
	return fmt.Errorf("what it sent first is no AMQP: %q", got)
}

// await reads the method that must come now.
func (c *connection) await(m wire.Method) error {
	for {
		f, err := c.frames.Next()
		switch {
		case err != nil:
			if is[*wire.FrameError](err) {
				return explain(err)
			}
			return err
		case f.Type == wire.FrameHeartbeat:
			continue
		case f.Type != wire.FrameMethod || f.Channel != 0:
			return raise(wire.UnexpectedFrame, "a frame of type %d on channel %d where %v was due", f.Type, f.Channel, m.ID())
		}
		id, args, err := wire.SplitMethod(f.Payload)
		switch {
		case err != nil:
			return explain(err)
		case id == wire.ConnectionCloseID:
			return errClosed
		case id != m.ID():
			return explainIf(raise(wire.CommandInvalid, "%v where %v was due", id, m.ID()), id)
		}
		if err := m.Decode(args); err != nil {
			return explainIf(err, id)
		}
		return nil
	}
}

// login checks who the client is.
func (c *connection) login(start *wire.ConnectionStartOk) error {
	properties, _, err := message.ParseTable(start.ClientProperties)
	if err != nil {
		return explainIf(err, wire.ConnectionStartOkID)
	}
	if v, ok := properties.Get("capabilities"); ok {
		can, _ := v.Table()
		has := func(name string) bool {
			v, _ := can.Get(name)
			b, _ := v.Bool()
			return b
		}
		c.can = capabilities{has("consumer_cancel_notify"), has("connection.blocked"), has("authentication_failure_close")}
	}
	if v, ok := properties.Get("connection_name"); ok {
		if name, ok := v.Text(); ok {
			c.name += fmt.Sprintf(" (%.*q)", nameShown, name)
		}
	}
	user, password, err := credentials(string(start.Mechanism), start.Response)
	if err != nil {
		return explainIf(err, wire.ConnectionStartOkID)
	}
	if err := c.s.o.Auth.Login(user, password, c.sock.RemoteAddr()); err != nil {
		c.s.counts.loginsRefused.Add(1)
		if c.can.authFailure {
			c.s.o.Logf("connection %s: login of user '%s' refused: %v", c.name, user, err)
			return explainIf(raise(wire.AccessRefused, "Login was refused using authentication mechanism %s. The broker's log says why.", start.Mechanism),
				wire.ConnectionStartOkID)
		}
		return fmt.Errorf("%w: login of user '%s': %v", errRefused, user, err)
	}
	c.user = user
	return nil
}

// tune agrees on limits: the lower of what both sides offer, where 0 offers no limit (4.2.3, 4.9). The heartbeat is the client's choice, as with RabbitMQ.
func (c *connection) tune() error {
	l := &c.s.limits
	c.write(&wire.ConnectionTune{ChannelMax: uint16(l.ChannelMax), FrameMax: uint32(l.FrameMax), Heartbeat: uint16(l.Heartbeat / time.Second)})
	var ok wire.ConnectionTuneOk
	if err := c.await(&ok); err != nil {
		return err
	}
	if ok.FrameMax != 0 && ok.FrameMax < wire.FrameMin {
		return explainIf(raise(wire.NotAllowed, "negotiated frame_max = %d is lower than the minimum allowed value (%d)", ok.FrameMax, wire.FrameMin),
			wire.ConnectionTuneOkID)
	}
	c.channelMax, c.frameMax = uint16(l.ChannelMax), l.FrameMax
	if ok.ChannelMax != 0 {
		c.channelMax = min(c.channelMax, ok.ChannelMax)
	}
	if ok.FrameMax != 0 {
		c.frameMax = int(min(uint32(c.frameMax), ok.FrameMax))
	}
	c.frames.SetMax(c.frameMax)
	heartbeat := time.Duration(ok.Heartbeat) * time.Second
	if heartbeat > 0 {
		c.pulse = newPulse(c, heartbeat)
	}
	c.heartbeat = heartbeat
	return nil
}

// capabilitiesServed are told to clients, under the names that RabbitMQ uses. They say what works here.
var capabilitiesServed = []string{
	"publisher_confirms", "basic.nack", "consumer_cancel_notify", "connection.blocked", "authentication_failure_close", "per_consumer_qos",
}

// properties is the table of connection.start that says what the broker is.
func (s *Server) properties() []byte {
	var b message.TableBuilder
	b.OpenTable("capabilities")
	for _, name := range capabilitiesServed {
		b.Bool(name, true)
	}
	b.Close()
	b.Text("cluster_name", s.o.Node)
	b.Text("product", "Polylog")
	b.Text("version", s.o.Version)
	b.Text("platform", runtime.Version())
	b.Text("copyright", "The Polylog authors")
	b.Text("information", "Licensed under the Apache License 2.0")
	t, err := b.Table()
	if err != nil {
		panic("amqp: the server's properties are no table: " + err.Error()) // names and texts are short and ours
	}
	return t.Bytes()
}
