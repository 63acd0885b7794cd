// Package wire is the codec of AMQP 0-9-1: frames, the methods of all classes with RabbitMQ's extensions, content headers and bodies. Servers and clients
// use it alike, so every method can be encoded and decoded.
//
//	frame:   type (1 method, 2 header, 3 body, 8 heartbeat) · channel, 2 bytes · length of the payload, 4 bytes · payload · 0xCE
//	method:  class, 2 bytes · method, 2 bytes · arguments
//	header:  class, 2 bytes · weight, 2 bytes, zero · length of the body, 8 bytes · flags of the properties, 2 bytes · the properties
//
// What it promises:
//
//   - No input makes it panic. A frame's length is checked before the frame is read, and memory follows what has arrived.
//   - What was decoded are views of the input: nothing is copied, and reading a publish with its content, or writing a delivery with its, allocates nothing.
//   - What it encodes, it decodes to the same, and a decoded method has nothing left over.
//
// What it does not do: field tables (with their length) and the list of properties stay the bytes they are, which package message reads, and no method is
// judged.
//
// spec_gen.go is written by the generator in spec/ from its own table of methods. Start with frame.go, then method.go and content.go; primitive.go reads and
// writes the types of fields, code.go has the reply codes.
package wire

//go:generate go run ./spec spec_gen.go
