package amqp

import (
	"polylog/protocols/amqp/wire"
)

// general acts on a method of channel 0.
func (c *connection) general(id wire.MethodID, args []byte) error {
	switch id {
	case wire.ConnectionCloseID:
		var m wire.ConnectionClose
		if err := m.Decode(args); err != nil {
			return err
		}
		if m.ReplyCode != uint16(wire.Success) && m.ReplyCode != 0 {
			c.s.o.Logf("connection %s: the client closes it: %d %s", c.name, m.ReplyCode, m.ReplyText)
		}
		return errClosed
	case wire.ConnectionUpdateSecretID:
		var m wire.ConnectionUpdateSecret
		if err := m.Decode(args); err != nil {
			return err
		}
		// The new secret takes the place of the password: it must be one that would let the user in.
		if err := c.s.o.Auth.Login(c.user, string(m.NewSecret), c.sock.RemoteAddr()); err != nil {
			c.s.counts.loginsRefused.Add(1)
			return raise(wire.NotAllowed, "the new secret was refused: %v", err)
		}
		c.write(&wire.ConnectionUpdateSecretOk{})
		return c.out.Await()
	}
	switch {
	case wire.New(id) == nil:
		return raise(wire.NotImplemented, "there is no %v", id)
	case id.Class() != wire.ClassConnection:
		return raise(wire.CommandInvalid, "%v on channel 0; it belongs on a channel of its own", id)
	}
	return raise(wire.CommandInvalid, "%v is not expected from a client in an open connection", id)
}
