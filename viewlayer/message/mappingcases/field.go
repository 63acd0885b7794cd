package mappingcases

import (
	"encoding/binary"
	"fmt"
	"math"

	"polylog/viewlayer/message"
)

// Field is a named value of a field table. The Go type of the value says the type letter:
//
//	bool t, int8 b, uint8 B, int16 s, uint16 u, int32 I, uint32 i, int64 l, float32 f, float64 d, Decimal D, Timestamp T, string S, []byte x, Array A,
//	Fields F, nil V; Raw is the letter and what follows it.
type Field struct {
	Name  string
	Value any
}

// The values that Go has no types for.
type (
	Fields    []Field
	Array     []any
	Timestamp uint64
	Raw       string
	Decimal   struct {
		Scale    uint8
		Unscaled int32
	}
)

// Table encodes a field table.
func Table(fields ...Field) message.Table {
	t, rest, err := message.ParseTable(sized(Fields(fields).encode()))
	if err != nil || len(rest) > 0 {
		panic(fmt.Sprintf("mappingcases: a table of the table is malformed: %v, %d bytes left", err, len(rest)))
	}
	return t
}

func sized(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }

func (f Fields) encode() []byte {
	var b []byte
	for _, field := range f {
		b = append(append(b, byte(len(field.Name))), field.Name...)
		b = append(b, encode(field.Value)...)
	}
	return b
}

// encode returns the type letter and the value.
func encode(v any) []byte {
	be := binary.BigEndian
	switch v := v.(type) {
	case nil:
		return []byte("V")
	case bool:
		if v {
			return []byte("t\x01")
		}
		return []byte("t\x00")
	case int8:
		return []byte{'b', byte(v)}
	case uint8:
		return []byte{'B', v}
	case int16:
		return be.AppendUint16([]byte("s"), uint16(v))
	case uint16:
		return be.AppendUint16([]byte("u"), v)
	case int32:
		return be.AppendUint32([]byte("I"), uint32(v))
	case uint32:
		return be.AppendUint32([]byte("i"), v)
	case int64:
		return be.AppendUint64([]byte("l"), uint64(v))
	case float32:
		return be.AppendUint32([]byte("f"), math.Float32bits(v))
	case float64:
		return be.AppendUint64([]byte("d"), math.Float64bits(v))
	case Decimal:
		return be.AppendUint32([]byte{'D', v.Scale}, uint32(v.Unscaled))
	case Timestamp:
		return be.AppendUint64([]byte("T"), uint64(v))
	case string:
		return append([]byte("S"), sized([]byte(v))...)
	case []byte:
		return append([]byte("x"), sized(v)...)
	case Array:
		var b []byte
		for _, e := range v {
			b = append(b, encode(e)...)
		}
		return append([]byte("A"), sized(b)...)
	case Fields:
		return append([]byte("F"), sized(v.encode())...)
	case Raw:
		return []byte(v)
	}
	panic(fmt.Sprintf("mappingcases: a value of type %T has no type letter", v))
}
