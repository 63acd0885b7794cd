package message_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"polylog/logstore/seed"
	"polylog/viewlayer/message"
	"polylog/viewlayer/message/mappingcases"
)

type (
	fields = mappingcases.Fields
	array  = mappingcases.Array
)

// f is a field.
func f(name string, v any) mappingcases.Field { return mappingcases.Field{Name: name, Value: v} }

// one is a table of the field "k".
func one(v any) message.Table { return mappingcases.Table(f("k", v)) }

// TestTableBytesAreThoseOfTheWire writes a table byte by byte.
func TestTableBytesAreThoseOfTheWire(t *testing.T) {
	t.Parallel()
	var b message.TableBuilder
	b.Text("s", "hi")
	b.Int32("I", -2)
	b.Int64("l", 3)
	b.Bool("t", true)
	b.Double("d", 0.5)
	b.Timestamp("T", 7)
	b.Bytes("x", []byte{0xff})
	b.Void("V")
	b.OpenArray("A")
	b.Bool("not written", false)
	b.OpenTable("neither")
	b.Void("in")
	b.Close()
	b.Close()
	b.OpenTable("F")
	b.Close()
	table, err := b.Table()
	if err != nil {
		t.Fatal(err)
	}
	want := "\x00\x00\x00\x59" +
		"\x01sS\x00\x00\x00\x02hi" +
		"\x01II\xff\xff\xff\xfe" +
		"\x01ll\x00\x00\x00\x00\x00\x00\x00\x03" +
		"\x01tt\x01" +
		"\x01dd\x3f\xe0\x00\x00\x00\x00\x00\x00" +
		"\x01TT\x00\x00\x00\x00\x00\x00\x00\x07" +
		"\x01xx\x00\x00\x00\x01\xff" +
		"\x01VV" +
		"\x01AA\x00\x00\x00\x0bt\x00F\x00\x00\x00\x04\x02inV" +
		"\x01FF\x00\x00\x00\x00"
	if string(table.Bytes()) != want {
		t.Fatalf("\n%q, want\n%q", table.Bytes(), want)
	}
	parsed, rest, err := message.ParseTable([]byte(want + "behind"))
	if err != nil || string(rest) != "behind" || !bytes.Equal(parsed.Bytes(), table.Bytes()) {
		t.Fatalf("ParseTable: %q, rest %q, %v", parsed.Bytes(), rest, err)
	}
	if n := parsed.Len(); n != 10 {
		t.Errorf("Len = %d, want 10", n)
	}
	if clone := parsed.Clone(); !bytes.Equal(clone.Bytes(), parsed.Bytes()) {
		t.Errorf("Clone = %q", clone.Bytes())
	}
}

// TestValuesAreReadByTheirTypes has the accessors of each type; what an accessor is not for, it does not answer.
func TestValuesAreReadByTheirTypes(t *testing.T) {
	t.Parallel()
	describe := func(v message.Value) string {
		var s []string
		if n, ok := v.Int(); ok {
			s = append(s, fmt.Sprintf("int %d", n))
		}
		if b, ok := v.Bool(); ok {
			s = append(s, fmt.Sprintf("bool %v", b))
		}
		if p, ok := v.Text(); ok {
			s = append(s, fmt.Sprintf("text %q", p))
		}
		if p, ok := v.Bytes(); ok {
			s = append(s, fmt.Sprintf("bytes %q", p))
		}
		if f, ok := v.Float(); ok {
			s = append(s, fmt.Sprintf("float %v", f))
		}
		if n, scale, ok := v.Decimal(); ok {
			s = append(s, fmt.Sprintf("decimal %d e-%d", n, scale))
		}
		if n, ok := v.Timestamp(); ok {
			s = append(s, fmt.Sprintf("time %d", n))
		}
		if a, ok := v.Array(); ok {
			s = append(s, fmt.Sprintf("array of %d", a.Len()))
		}
		if f, ok := v.Table(); ok {
			s = append(s, fmt.Sprintf("table of %d", f.Len()))
		}
		if v.IsVoid() {
			s = append(s, "void")
		}
		return strings.Join(s, ", ")
	}
	for _, c := range []struct {
		value any
		want  string
	}{
		{true, "bool true"}, {false, "bool false"}, {mappingcases.Raw("t\x02"), "bool true"},
		{int8(-1), "int -1"}, {uint8(255), "int 255"}, {int16(-1), "int -1"}, {mappingcases.Raw("U\xff\xfe"), "int -2"}, {uint16(65535), "int 65535"},
		{int32(-1), "int -1"}, {uint32(math.MaxUint32), "int 4294967295"}, {int64(-1), "int -1"},
		{mappingcases.Raw("L\xff\xff\xff\xff\xff\xff\xff\xfe"), "int -2"},
		{float32(0.5), "float 0.5"}, {-0.25, "float -0.25"}, {mappingcases.Decimal{Scale: 2, Unscaled: -5}, "decimal -5 e-2"},
		{mappingcases.Timestamp(math.MaxUint64), "time 18446744073709551615"},
		{"5", `text "5", bytes "5"`}, {[]byte("5"), `bytes "5"`}, {array{nil, nil}, "array of 2"}, {fields{f("a", nil)}, "table of 1"}, {nil, "void"},
	} {
		v, ok := one(c.value).Get("k")
		if got := describe(v); !ok || got != c.want {
			t.Errorf("%#v: %s, want %s", c.value, got, c.want)
		}
	}
	var none message.Value
	if got := describe(none); got != "" || !none.IsZero() || none.Type() != 0 {
		t.Errorf("the zero Value is %q", got)
	}
	if _, ok := one(nil).Get("other"); ok {
		t.Error("a name that is not there was found")
	}
	var empty message.Table
	if _, ok := empty.Get(""); ok || !empty.IsEmpty() || empty.Len() != 0 || string(empty.Bytes()) != "\x00\x00\x00\x00" || !empty.Clone().IsEmpty() {
		t.Error("the zero Table is not empty")
	}
}

// TestMalformedTablesAreRefused has each way in which a table can be wrong.
func TestMalformedTablesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		b  string
		at int
	}{
		"nothing":               {"", 0},
		"half a length":         {"\x00\x00\x00", 0},
		"shorter than it says":  {"\x00\x00\x00\x03\x01k", 0},
		"longest length":        {"\xff\xff\xff\xff", 0},
		"name over the end":     {"\x00\x00\x00\x02\x05k", 4},
		"no value":              {"\x00\x00\x00\x02\x01k", 6},
		"unknown type":          {"\x00\x00\x00\x03\x01k?", 6},
		"type 0":                {"\x00\x00\x00\x03\x01k\x00", 6},
		"short int":             {"\x00\x00\x00\x06\x01kI\x00\x00\x00", 6},
		"short text length":     {"\x00\x00\x00\x05\x01kS\x00\x00", 6},
		"text over the end":     {"\x00\x00\x00\x08\x01kS\x00\x00\x00\x02a", 6},
		"text over its table":   {"\x00\x00\x00\x08\x01kS\x00\x00\x00\x02abc", 6},
		"table over its table":  {"\x00\x00\x00\x07\x01kF\x00\x00\x00\x03\x01aV", 7},
		"array over its table":  {"\x00\x00\x00\x07\x01kA\x00\x00\x00\x01V", 7},
		"bad value in an array": {"\x00\x00\x00\x09\x01kA\x00\x00\x00\x02V?", 12},
	} {
		_, rest, err := message.ParseTable([]byte(c.b))
		var bad *message.TableError
		if !errors.As(err, &bad) || bad.At != c.at || bad.Reason == "" {
			t.Errorf("%s: %v, want a *TableError at byte %d", name, err, c.at)
		}
		if string(rest) != c.b {
			t.Errorf("%s: rest %q", name, rest)
		}
	}
	if _, _, err := message.ParseValue(nil); err == nil {
		t.Error("ParseValue took nothing for a value")
	}
	if v, rest, err := message.ParseValue([]byte("t\x01rest")); err != nil || string(v.Encoded()) != "t\x01" || string(rest) != "rest" {
		t.Errorf("ParseValue = %q, %q, %v", v.Encoded(), rest, err)
	}
}

// TestNestingIsBounded goes to the deepest nesting, and one further.
func TestNestingIsBounded(t *testing.T) {
	t.Parallel()
	nested := func(depth int) []byte {
		b := []byte("\x00\x00\x00\x00")
		for range depth - 1 {
			inner := append([]byte("\x01kF"), b...)
			b = append(binary.BigEndian.AppendUint32(nil, uint32(len(inner))), inner...)
		}
		return b
	}
	var bad *message.TableError
	deepest, _, err := message.ParseTable(nested(message.TableDepthMax))
	if err != nil {
		t.Errorf("%d deep: %v", message.TableDepthMax, err)
	}
	if _, _, err := message.ParseTable(nested(message.TableDepthMax + 1)); !errors.As(err, &bad) {
		t.Errorf("%d deep: %v, want a *TableError", message.TableDepthMax+1, err)
	}
	if _, _, err := message.ParseTable(nested(2000)); !errors.As(err, &bad) {
		t.Errorf("2000 deep: %v, want a *TableError", err)
	}
	var b message.TableBuilder
	v, _ := deepest.Get("k")
	b.Value("k", v)
	if _, err := b.Table(); err != nil {
		t.Errorf("a value of a table, put into another: %v", err)
	}
	b.Reset()
	b.OpenArray("a")
	b.Value("k", v)
	b.Close()
	if _, err := b.Table(); !errors.As(err, &bad) {
		t.Errorf("a value put where it is too deep: %v, want a *TableError", err)
	}
	b.Reset()
	for range message.TableDepthMax - 1 {
		b.OpenTable("k")
	}
	for range message.TableDepthMax - 1 {
		b.Close()
	}
	if built, err := b.Table(); err != nil || !bytes.Equal(built.Bytes(), deepest.Bytes()) {
		t.Errorf("built %d deep: %v", message.TableDepthMax, err)
	}
}

// TestBuilderTellsMistakes has each mistake of a caller.
func TestBuilderTellsMistakes(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(b *message.TableBuilder){
		"a long name":    func(b *message.TableBuilder) { b.Void(strings.Repeat("n", 256)) },
		"no value":       func(b *message.TableBuilder) { b.Value("k", message.Value{}) },
		"close too much": func(b *message.TableBuilder) { b.OpenTable("k"); b.Close(); b.Close() },
		"left open":      func(b *message.TableBuilder) { b.OpenArray("k") },
		"too deep": func(b *message.TableBuilder) {
			for range message.TableDepthMax {
				b.OpenArray("")
			}
		},
		"too large": func(b *message.TableBuilder) { b.Bytes("k", make([]byte, message.TableBytesMax)) },
	} {
		var b message.TableBuilder
		build(&b)
		var bad *message.TableError
		if table, err := b.Table(); !errors.As(err, &bad) || !table.IsEmpty() {
			t.Errorf("%s: %v, want a *TableError", name, err)
		}
		b.Reset()
		b.Bool("k", false)
		if table, err := b.Table(); err != nil || table.Len() != 1 {
			t.Errorf("%s: after Reset: %d fields, %v", name, table.Len(), err)
		}
	}
}

// TestTablesAreEqualAsForRabbitMQ has what a second declaration may write differently, and what not.
func TestTablesAreEqualAsForRabbitMQ(t *testing.T) {
	t.Parallel()
	table := mappingcases.Table
	nan := mappingcases.Raw("d\x7f\xf8\x00\x00\x00\x00\x00\x00")
	for _, c := range []struct {
		a, b message.Table
		want bool
	}{
		{table(), message.Table{}, true},
		{table(f("a", int32(1))), table(), false},
		{table(f("a", int32(1))), table(f("b", int32(1))), false},
		{table(f("a", int32(1)), f("b", "x")), table(f("b", "x"), f("a", int64(1))), true},
		{table(f("a", "1"), f("a", "2")), table(f("a", "1")), true},
		{table(f("a", "1"), f("a", "2")), table(f("a", "2")), false},
		{one(int8(-1)), one(int64(-1)), true},
		{one(uint8(255)), one(mappingcases.Raw("L\x00\x00\x00\x00\x00\x00\x00\xff")), true},
		{one(int8(-1)), one(uint8(255)), false},
		{one(int32(1)), one(1.0), false},
		{one(int32(1)), one("1"), false},
		{one(int32(1)), one(true), false},
		{one(int32(1)), one(mappingcases.Decimal{Unscaled: 1}), false},
		{one(int32(1)), one(mappingcases.Timestamp(1)), false},
		{one(float32(0.5)), one(0.5), true},
		{one(float32(0.1)), one(0.1), false},
		{one(0.0), one(math.Copysign(0, -1)), true},
		{one(nan), one(nan), true},
		{one(true), one(mappingcases.Raw("t\x02")), true},
		{one(true), one(false), false},
		{one("x"), one([]byte("x")), false},
		{one("x"), one("y"), false},
		{one(nil), one(""), false},
		{one(nil), one(nil), true},
		{one(mappingcases.Timestamp(1)), one(mappingcases.Timestamp(2)), false},
		{one(array{int32(1), "a"}), one(array{int64(1), "a"}), true},
		{one(array{int32(1), "a"}), one(array{"a", int32(1)}), false},
		{one(array{int32(1)}), one(array{int32(1), int32(2)}), false},
		{one(array{int32(1), int32(2)}), one(array{int32(1)}), false},
		{one(array{}), one(fields{}), false},
		{one(fields{f("a", int32(1)), f("b", nil)}), one(fields{f("b", nil), f("a", int8(1))}), true},
		{one(fields{f("a", int32(1))}), one(fields{f("a", int32(2))}), false},
	} {
		if got := c.a.Equal(c.b); got != c.want {
			t.Errorf("%q and %q: equal %v, want %v", c.a.Bytes(), c.b.Bytes(), got, c.want)
		}
		if got := c.b.Equal(c.a); got != c.want {
			t.Errorf("%q and %q: equal %v, want %v", c.b.Bytes(), c.a.Bytes(), got, c.want)
		}
	}
}

// TestRandomTablesComeBack builds tables of values of all types and reads them again.
func TestRandomTablesComeBack(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	var b message.TableBuilder
	for range 3000 {
		want := randomTable(rng, 0)
		table := mappingcases.Table(want...)
		if !table.Equal(table) {
			t.Fatalf("%q does not equal itself", table.Bytes())
		}
		b.Reset()
		i := 0
		for it := table.Fields(); it.Next(); i++ {
			if string(it.Field().Name) != want[i].Name {
				t.Fatalf("field %d is %q, want %q", i, it.Field().Name, want[i].Name)
			}
			rebuild(&b, string(it.Field().Name), it.Field().Value)
		}
		if i != len(want) {
			t.Fatalf("%d fields, want %d", i, len(want))
		}
		built, err := b.Table()
		if err != nil || !bytes.Equal(built.Bytes(), table.Bytes()) {
			t.Fatalf("%q came back as %q, %v", table.Bytes(), built.Bytes(), err)
		}
	}
}

// rebuild adds a value piece by piece, where the builder has a method for its type.
func rebuild(b *message.TableBuilder, name string, v message.Value) {
	switch v.Type() {
	case message.TypeInt32:
		n, _ := v.Int()
		b.Int32(name, int32(n))
	case message.TypeInt64:
		n, _ := v.Int()
		b.Int64(name, n)
	case message.TypeText:
		s, _ := v.Text()
		b.Text(name, string(s))
	case message.TypeBytes:
		s, _ := v.Bytes()
		b.Bytes(name, s)
	case message.TypeTimestamp:
		n, _ := v.Timestamp()
		b.Timestamp(name, n)
	case message.TypeVoid:
		b.Void(name)
	case message.TypeArray:
		b.OpenArray(name)
		a, _ := v.Array()
		for it := a.Values(); it.Next(); {
			rebuild(b, "ignored", it.Value())
		}
		b.Close()
	case message.TypeTable:
		b.OpenTable(name)
		f, _ := v.Table()
		for it := f.Fields(); it.Next(); {
			rebuild(b, string(it.Field().Name), it.Field().Value)
		}
		b.Close()
	default:
		b.Value(name, v)
	}
}

// FuzzParseTable looks for a table that is taken and cannot be read, or that is more or less than its bytes.
func FuzzParseTable(fz *testing.F) {
	for _, c := range mappingcases.FromAMQP() {
		fz.Add(c.In.Properties.Headers.Bytes())
	}
	fz.Add([]byte("\x00\x00\x00\x09\x01kA\x00\x00\x00\x02V?"))
	fz.Fuzz(func(t *testing.T, b []byte) {
		table, rest, err := message.ParseTable(b)
		if err != nil {
			var bad *message.TableError
			if !errors.As(err, &bad) || bad.At < 0 || bad.At > len(b) {
				t.Fatalf("%v, want a *TableError", err)
			}
			return
		}
		if string(table.Bytes())+string(rest) != string(b) {
			t.Fatalf("%q is %q and %q", b, table.Bytes(), rest)
		}
		var builder message.TableBuilder
		for it := table.Fields(); it.Next(); {
			rebuild(&builder, string(it.Field().Name), it.Field().Value)
		}
		built, err := builder.Table()
		if err != nil || !bytes.Equal(built.Bytes(), table.Bytes()) {
			t.Fatalf("%q came back as %q, %v", table.Bytes(), built.Bytes(), err)
		}
		if !table.Equal(built) {
			t.Fatalf("%q does not equal itself", table.Bytes())
		}
	})
}
