package logbench

import (
	"encoding/json"
	"strings"
	"testing"
)

var sample = []Row{
	compare("append-1", RecordsPerSecond, 6000, 10000, "bare log", 0.6),
	compare("large", BytesPerSecond, 2.5e8, 1e9, "bare log", 0.6),
	limit("waiting-memory", Bytes, 450<<20, 300<<20, "limit"),
	{Name: "told", Measured: Figure{10, RecordsPerSecond}, Against: Figure{4, RecordsPerSecond}, Is: "nothing"},
}

func TestTableIsAligned(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(b *strings.Builder) error
		want  string
	}{
		{"text", func(b *strings.Builder) error { return WriteTable(b, sample) }, `
name            measured   against            ratio  target
append-1         6,000/s  10,000/s  bare log   0.60  ≥ 0.60  ok
large           250 MB/s    1 GB/s  bare log   0.25  ≥ 0.60  low
waiting-memory   450 MiB   300 MiB  limit      1.50  ≤ 1.00  high
told                10/s       4/s  nothing    2.50
`},
		{"Markdown", func(b *strings.Builder) error { return WriteMarkdown(b, sample) }, `
| name           | measured |  against |          | ratio | target |      |
| -------------- | -------: | -------: | -------- | ----: | -----: | ---- |
| append-1       |  6,000/s | 10,000/s | bare log |  0.60 | ≥ 0.60 | ok   |
| large          | 250 MB/s |   1 GB/s | bare log |  0.25 | ≥ 0.60 | low  |
| waiting-memory |  450 MiB |  300 MiB | limit    |  1.50 | ≤ 1.00 | high |
| told           |     10/s |      4/s | nothing  |  2.50 |        |      |
`},
	} {
		var b strings.Builder
		if err := c.write(&b); err != nil || b.String() != c.want[1:] {
			t.Errorf("%s: %v\n%swant\n%s", c.name, err, b.String(), c.want[1:])
		}
	}
}

func TestJSONHasRatiosAndVerdicts(t *testing.T) {
	var b strings.Builder
	if err := WriteJSON(&b, sample); err != nil {
		t.Fatal(err)
	}
	var got []struct {
		Name     string
		Measured Figure
		Ratio    float64
		OK       bool
	}
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 4 || !got[3].OK || got[0].Ratio != 0.6 || !got[0].OK || got[1].OK || got[2].OK || got[2].Measured != (Figure{450 << 20, Bytes}) {
		t.Errorf("got %+v", got)
	}
	b.Reset()
	if err := WriteJSON(&b, nil); err != nil || b.String() != "[]\n" {
		t.Errorf("no rows: %q, %v", b.String(), err)
	}
}

func TestFiguresAreShort(t *testing.T) {
	for _, c := range []struct {
		f    Figure
		want string
	}{
		{Figure{0, RecordsPerSecond}, "0/s"},
		{Figure{999.6, RecordsPerSecond}, "1,000/s"},
		{Figure{1234567, RecordsPerSecond}, "1,234,567/s"},
		{Figure{512, Bytes}, "512 B"},
		{Figure{1536, Bytes}, "1.5 KiB"},
		{Figure{-300 << 20, Bytes}, "-300 MiB"},
		{Figure{2.126e9, BytesPerSecond}, "2.13 GB/s"},
		{Figure{1.234, Seconds}, "1.23 s"},
		{Figure{0, Seconds}, "0.00 s"},
		{Figure{0.1, Seconds}, "0.10 s"},
		{Figure{0.01234, Seconds}, "12.3 ms"},
		{Figure{0.0000456, Seconds}, "45.6 µs"},
		{Figure{4321, MessagesPerSecond}, "4,321/s"},
		{Figure{2, Allocations}, "2.00"},
	} {
		if got := c.f.String(); got != c.want {
			t.Errorf("%g %s: %q, want %q", c.f.Value, c.f.Unit, got, c.want)
		}
	}
}

func TestMedianIsInTheMiddle(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}} {
		if got := Median(c.v); got != c.want {
			t.Errorf("%v: %g, want %g", c.v, got, c.want)
		}
	}
}
