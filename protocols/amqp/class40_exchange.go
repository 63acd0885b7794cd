package amqp

import "polylog/protocols/amqp/wire"

// errDefaultExchange refuses what would change the default exchange, to which every queue is bound by its name for good.
func errDefaultExchange() error {
	return raise(wire.AccessRefused, "operation not permitted on the default exchange")
}

// errNoExchanges refuses what needs exchanges of the client's own.
func errNoExchanges(id wire.MethodID) error {
	return raise(wire.NotImplemented, "%v is not implemented; only the default exchange is served", id)
}

func (ch *channel) classExchange(id wire.MethodID, args []byte) error {
	m := wire.New(id)
	if m == nil {
		return ch.unknown(id)
	}
	if err := m.Decode(args); err != nil {
		return err
	}
	onDefault := false
	switch m := m.(type) {
	case *wire.ExchangeDeclare:
		onDefault = len(m.Exchange) == 0
	case *wire.ExchangeDelete:
		onDefault = len(m.Exchange) == 0
	case *wire.ExchangeBind:
		onDefault = len(m.Source) == 0 || len(m.Destination) == 0
	case *wire.ExchangeUnbind:
		onDefault = len(m.Source) == 0 || len(m.Destination) == 0
	default:
		return ch.unknown(id)
	}
	if onDefault {
		return errDefaultExchange()
	}
	return errNoExchanges(id)
}
