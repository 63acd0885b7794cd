package amqp

import "polylog/protocols/amqp/wire"

func (ch *channel) classTx(id wire.MethodID) error {
	switch id {
	case wire.TxSelectID, wire.TxCommitID, wire.TxRollbackID:
		return raise(wire.NotImplemented, "%v is not implemented; confirm.select tells when a message is safe", id)
	}
	return ch.unknown(id)
}
