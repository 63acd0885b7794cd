package message

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// Times are written as RFC 3339 in UTC up to the year 9999, beyond it as the number of seconds. All of the first kind have the same length.
const (
	timeForm     = "2006-01-02T15:04:05Z"
	lastFormable = 253402300799 // 9999-12-31T23:59:59Z
)

// The bits of the NaN that the text "NaN" stands for, as Java and Python write it.
const (
	plainNaN32 = 0x7fc00000
	plainNaN64 = 0x7ff8000000000000
)

// appendText appends what a Kafka client sees of a value: text for what AMQP calls text, the bytes of a byte array, the usual text of numbers, booleans and
// times, JSON of arrays and tables, nothing for void. exact tells whether parseText makes the same value of it again.
func appendText(dst []byte, v Value) (out []byte, exact bool) {
	switch v.Type() {
	case TypeText, TypeBytes:
		return append(dst, v.raw[5:]...), true
	case TypeBool:
		return strconv.AppendBool(dst, v.raw[1] != 0), v.raw[1] <= 1
	case TypeFloat:
		bits := binary.BigEndian.Uint32(v.raw[1:])
		f := math.Float32frombits(bits)
		return appendFloat(dst, float64(f), 32), f == f || bits == plainNaN32
	case TypeDouble:
		bits := binary.BigEndian.Uint64(v.raw[1:])
		f := math.Float64frombits(bits)
		return appendFloat(dst, f, 64), f == f || bits == plainNaN64
	case TypeDecimal:
		return appendDecimal(dst, v), true
	case TypeTimestamp:
		return appendTime(dst, binary.BigEndian.Uint64(v.raw[1:])), true
	case TypeArray, TypeTable:
		return appendJSON(dst, v), false
	case TypeVoid:
		return dst, true
	}
	n, _ := v.Int()
	return strconv.AppendInt(dst, n, 10), true
}

func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bits) // as many digits as tell it from its neighbours
}

// appendDecimal writes as many digits behind the point as the decimal has, so that the scale can be read back.
func appendDecimal(dst []byte, v Value) []byte {
	unscaled, scale, _ := v.Decimal()
	n := int64(unscaled)
	if n < 0 {
		dst, n = append(dst, '-'), -n
	}
	var digits [10]byte // of 2^31
	d := strconv.AppendInt(digits[:0], n, 10)
	point := len(d) - int(scale) // digits before the point, if positive
	if point <= 0 {
		dst = append(dst, '0', '.')
		for ; point < 0; point++ {
			dst = append(dst, '0')
		}
		return append(dst, d...)
	}
	dst = append(dst, d[:point]...)
	if scale > 0 {
		dst = append(append(dst, '.'), d[point:]...)
	}
	return dst
}

func appendTime(dst []byte, seconds uint64) []byte {
	if seconds > lastFormable {
		return strconv.AppendUint(dst, seconds, 10)
	}
	return time.Unix(int64(seconds), 0).UTC().AppendFormat(dst, timeForm)
}

// parseText appends the value that text stands for, as it is on the wire, type letter first. It undoes appendText where that was exact, and is false for what
// appendText does not write.
func parseText(dst []byte, letter FieldType, text []byte) (out []byte, ok bool) {
	dst = append(dst, byte(letter))
	switch letter {
	case TypeText, TypeBytes:
		if len(text) > math.MaxUint32 {
			return dst, false
		}
		return append(binary.BigEndian.AppendUint32(dst, uint32(len(text))), text...), true
	case TypeBool:
		switch string(text) {
		case "true":
			return append(dst, 1), true
		case "false":
			return append(dst, 0), true
		}
		return dst, false
	case TypeInt8, TypeUint8, TypeInt16, TypeInt16Spec, TypeUint16, TypeInt32, TypeUint32, TypeInt64, TypeInt64Spec:
		return parseInt(dst, letter, text)
	case TypeFloat:
		f, ok := parseFloat(text, 32)
		if bits := math.Float32bits(float32(f)); f == f {
			return binary.BigEndian.AppendUint32(dst, bits), ok
		}
		return binary.BigEndian.AppendUint32(dst, plainNaN32), ok
	case TypeDouble:
		f, ok := parseFloat(text, 64)
		if f == f {
			return binary.BigEndian.AppendUint64(dst, math.Float64bits(f)), ok
		}
		return binary.BigEndian.AppendUint64(dst, plainNaN64), ok
	case TypeDecimal:
		unscaled, scale, ok := parseDecimal(text)
		return binary.BigEndian.AppendUint32(append(dst, scale), uint32(unscaled)), ok
	case TypeTimestamp:
		seconds, ok := parseTime(text)
		return binary.BigEndian.AppendUint64(dst, seconds), ok
	}
	return dst, false
}

// parseInt appends an integer of the letter's width, if text is one in its range.
func parseInt(dst []byte, letter FieldType, text []byte) ([]byte, bool) {
	size := int(fixedSize[letter]) - 1
	if len(text) > 20 { // -2^63 has as many
		return dst, false
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	low, high := int64(-1)<<(8*size-1), int64(1)<<(8*size-1)-1
	if letter == TypeUint8 || letter == TypeUint16 || letter == TypeUint32 {
		low, high = 0, int64(1)<<(8*size)-1
	}
	if err != nil || n < low || n > high {
		return dst, false
	}
	for shift := 8 * (size - 1); shift >= 0; shift -= 8 {
		dst = append(dst, byte(n>>shift))
	}
	return dst, true
}

func parseFloat(text []byte, bits int) (float64, bool) {
	if len(text) > 32 { // the longest of appendFloat has 24
		return 0, false
	}
	f, err := strconv.ParseFloat(string(text), bits)
	return f, err == nil
}

func parseDecimal(text []byte) (unscaled int32, scale uint8, ok bool) {
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	n, digits, behind := int64(0), 0, -1
	for _, c := range text {
		switch {
		case c == '.' && behind < 0 && digits > 0:
			behind = 0
			continue
		case c < '0' || c > '9':
			return 0, 0, false
		}
		digits++
		if behind >= 0 {
			behind++
		}
		if n = 10*n + int64(c-'0'); n > 1<<31 {
			return 0, 0, false
		}
	}
	if negative {
		n = -n
	}
	if digits == 0 || behind == 0 || behind > math.MaxUint8 || n > math.MaxInt32 {
		return 0, 0, false
	}
	return int32(n), uint8(max(behind, 0)), true
}

func parseTime(text []byte) (seconds uint64, ok bool) {
	if len(text) != len(timeForm) || text[10] != 'T' {
		if len(text) > 20 {
			return 0, false
		}
		n, err := strconv.ParseUint(string(text), 10, 64)
		return n, err == nil
	}
	t, err := time.Parse(timeForm, string(text))
	if err != nil || t.Unix() < 0 {
		return 0, false
	}
	return uint64(t.Unix()), true
}

// appendJSON appends a value as JSON: integers, floats and decimals as numbers; NaN and the infinities, which JSON has no numbers for, as strings; times as
// the text of appendText; byte arrays in base64; void as null. Bytes of a text or name that are not UTF-8 become U+FFFD. Fields keep their order, and a
// name that repeats is repeated. The depth of v is bounded by TableDepthMax.
func appendJSON(dst []byte, v Value) []byte {
	switch v.Type() {
	case TypeText:
		return appendQuoted(dst, v.raw[5:])
	case TypeBytes:
		dst = base64.StdEncoding.AppendEncode(append(dst, '"'), v.raw[5:])
		return append(dst, '"')
	case TypeFloat, TypeDouble:
		if f, _ := v.Float(); f != f || math.IsInf(f, 0) {
			dst, _ = appendText(append(dst, '"'), v)
			return append(dst, '"')
		}
	case TypeTimestamp:
		dst, _ = appendText(append(dst, '"'), v)
		return append(dst, '"')
	case TypeVoid:
		return append(dst, "null"...)
	case TypeArray:
		a, _ := v.Array()
		dst = append(dst, '[')
		sep := false
		for it := a.Values(); it.Next(); sep = true {
			if sep {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, it.value)
		}
		return append(dst, ']')
	case TypeTable:
		t, _ := v.Table()
		dst = append(dst, '{')
		sep := false
		for it := t.Fields(); it.Next(); sep = true {
			if sep {
				dst = append(dst, ',')
			}
			dst = append(appendQuoted(dst, it.field.Name), ':')
			dst = appendJSON(dst, it.field.Value)
		}
		return append(dst, '}')
	}
	dst, _ = appendText(dst, v)
	return dst
}

// appendQuoted appends a JSON string.
func appendQuoted(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for len(s) > 0 {
		c := s[0]
		if c < utf8.RuneSelf {
			switch {
			case c == '"' || c == '\\':
				dst = append(dst, '\\', c)
			case c == '\n':
				dst = append(dst, '\\', 'n')
			case c == '\t':
				dst = append(dst, '\\', 't')
			case c == '\r':
				dst = append(dst, '\\', 'r')
			case c < 0x20 || c == 0x7f:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			default:
				dst = append(dst, c)
			}
			s = s[1:]
			continue
		}
		r, size := utf8.DecodeRune(s) // U+FFFD for what is no UTF-8
		dst = utf8.AppendRune(dst, r)
		s = s[size:]
	}
	return append(dst, '"')
}

// appendValid appends s with U+FFFD in place of each byte that is not UTF-8.
func appendValid(dst, s []byte) []byte {
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		dst = utf8.AppendRune(dst, r)
		s = s[size:]
	}
	return dst
}
