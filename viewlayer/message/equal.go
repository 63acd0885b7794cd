package message

import "bytes"

// Equal tells whether two tables say the same, as a second declaration of a queue must: the same names with equal values, in any order. If a name repeats,
// its first value counts, as for Get.
func (t Table) Equal(o Table) bool {
	if bytes.Equal(t.Bytes(), o.Bytes()) {
		return true
	}
	mine, theirs := t.firsts(), o.firsts()
	if len(mine) != len(theirs) {
		return false
	}
	for name, v := range mine {
		if w, has := theirs[name]; !has || !v.Equal(w) {
			return false
		}
	}
	return true
}

// firsts returns the first value of each name.
func (t Table) firsts() map[string]Value {
	m := map[string]Value{}
	for it := t.Fields(); it.Next(); {
		if _, has := m[string(it.field.Name)]; !has {
			m[string(it.field.Name)] = it.field.Value
		}
	}
	return m
}

// Equal tells whether two values are the same for a declaration, as RabbitMQ judges: integers by value, whatever their widths; float and double by value;
// everything else by type and content. A long string and a byte array of the same bytes differ, and so do 1, 1.0, "1" and true. Two zero Values are equal.
func (v Value) Equal(w Value) bool {
	if bytes.Equal(v.raw, w.raw) {
		return true // also the same NaN, so that a table equals itself
	}
	if a, ok := v.Int(); ok {
		b, ok := w.Int()
		return ok && a == b
	}
	if a, ok := v.Float(); ok {
		b, ok := w.Float()
		return ok && a == b
	}
	if v.Type() != w.Type() {
		return false
	}
	switch v.Type() {
	case TypeBool:
		a, _ := v.Bool()
		b, _ := w.Bool()
		return a == b
	case TypeTable:
		a, _ := v.Table()
		b, _ := w.Table()
		return a.Equal(b)
	case TypeArray:
		a, _ := v.Array()
		b, _ := w.Array()
		return a.Equal(b)
	}
	return false
}

// Equal tells whether two arrays have equal values in the same order.
func (a Array) Equal(o Array) bool {
	x, y := a.Values(), o.Values()
	for x.Next() {
		if !y.Next() || !x.value.Equal(y.value) {
			return false
		}
	}
	return !y.Next()
}
