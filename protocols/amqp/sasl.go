package amqp

import (
	"bytes"
	"encoding/binary"

	"polylog/protocols/amqp/wire"
	"polylog/viewlayer/message"
)

// mechanisms are what clients may log in with, separated by spaces (connection.start).
const mechanisms = "PLAIN AMQPLAIN"

// credentials reads the response of a client to its mechanism.
func credentials(mechanism string, response []byte) (user, password string, err error) {
	switch mechanism {
	case "PLAIN": // RFC 4616: authorization identity, NUL, user, NUL, password
		parts := bytes.SplitN(response, []byte{0}, 3)
		if len(parts) != 3 {
			return "", "", raise(wire.SyntaxErrorCode, "a response to PLAIN is three parts with NUL between, there are %d", len(parts))
		}
		return string(parts[1]), string(parts[2]), nil
	case "AMQPLAIN": // a field table without its length
		t, _, err := message.ParseTable(append(binary.BigEndian.AppendUint32(nil, uint32(len(response))), response...))
		if err != nil {
			return "", "", err
		}
		login, _ := t.Get("LOGIN")
		word, _ := t.Get("PASSWORD")
		u, ok1 := login.Text()
		p, ok2 := word.Text()
		if !ok1 || !ok2 {
			return "", "", raise(wire.SyntaxErrorCode, "a response to AMQPLAIN has the text fields LOGIN and PASSWORD")
		}
		return string(u), string(p), nil
	}
	return "", "", raise(wire.CommandInvalid, "unknown authentication mechanism '%s'; there are %s", mechanism, mechanisms)
}
