package amqp

import "polylog/protocols/amqp/wire"

func (ch *channel) classConfirm(id wire.MethodID, args []byte) error {
	if id != wire.ConfirmSelectID {
		return ch.unknown(id)
	}
	var m wire.ConfirmSelect
	if err := m.Decode(args); err != nil {
		return err
	}
	ch.confirming = true // a second one changes nothing
	if m.NoWait {
		return nil
	}
	return ch.reply(&wire.ConfirmSelectOk{})
}
