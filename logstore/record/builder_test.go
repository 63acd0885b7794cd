package record

import (
	"bytes"
	"math"
	"testing"
)

func TestRoundTripWithEveryCodec(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 10, 3000} {
		plain, want := sample(t, n)
		for _, f := range framings() {
			b := repack(t, plain, f)
			if b.Codec() != f.codec {
				t.Fatalf("%s: codec %v", f.name, b.Codec())
			}
			sameMessages(t, read(t, b), want)
			if err := b.Validate(Limits{Dense: true}); err != nil {
				t.Errorf("%s: %v", f.name, err)
			}
		}
	}
}

func TestScratchServesAllCodecsInTurn(t *testing.T) {
	t.Parallel()
	var s Scratch
	for round := range 3 {
		for _, n := range []int{2000, 1, 300} {
			plain, want := sample(t, n)
			for _, f := range framings() {
				got, err := collect(repack(t, plain, f), &s)
				if err != nil {
					t.Fatalf("round %d, %s: %v", round, f.name, err)
				}
				sameMessages(t, got, want)
			}
		}
	}
}

func TestBuilderCompresses(t *testing.T) {
	t.Parallel()
	bl := NewBuilder()
	for _, codec := range []Codec{LZ4, Zstd, None, Zstd, LZ4} {
		bl.Reset()
		bl.SetCodec(codec)
		want := []message{}
		for i := range 2000 {
			m := message{offset: int64(i), timestamp: int64(i), value: bytes.Repeat([]byte{byte(i)}, 100)}
			bl.Append(m.timestamp, m.key, m.value, nil)
			want = append(want, m)
		}
		b, err := bl.Build()
		if err != nil {
			t.Fatal(err)
		}
		if b.Codec() != codec || codec != None && b.Len() > bl.Size()/4 {
			t.Fatalf("%v: %d bytes of %d with codec %v", codec, b.Len(), bl.Size(), b.Codec())
		}
		appended, err := bl.AppendTo([]byte("before"))
		if err != nil || !bytes.Equal(appended, append([]byte("before"), b.Bytes()...)) {
			t.Fatalf("%v: AppendTo differs from Build: %v", codec, err)
		}
		parsed, _, err := Parse(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		sameMessages(t, read(t, parsed), want)
	}
}

func TestBuilderSettings(t *testing.T) {
	t.Parallel()
	bl := NewBuilder()
	bl.Append(5, nil, nil, nil)
	b, err := bl.Build()
	if err != nil {
		t.Fatal(err)
	}
	if b.ProducerID() != -1 || b.ProducerEpoch() != -1 || b.BaseSequence() != -1 || b.LeaderEpoch() != -1 || b.Attributes() != 0 || b.BaseOffset() != 0 {
		t.Fatalf("defaults are %+v", decodeHeader(b.raw))
	}
	bl.SetControl(true)
	bl.SetTransactional(true)
	bl.SetLogAppendTime(true)
	bl.SetProducer(1<<50, 32767, math.MaxInt32)
	bl.SetBaseOffset(77)
	bl.Append(9, nil, nil, nil)
	bl.Append(7, nil, nil, nil)
	if b, err = bl.Build(); err != nil {
		t.Fatal(err)
	}
	if !b.Control() || !b.Transactional() || !b.LogAppendTime() || b.ProducerID() != 1<<50 || b.ProducerEpoch() != 32767 || b.BaseSequence() != math.MaxInt32 {
		t.Fatalf("header is %+v", decodeHeader(b.raw))
	}
	for i, m := range read(t, b) {
		if m.offset != 77+int64(i) || m.timestamp != 9 {
			t.Fatalf("record %d at offset %d has time %d", i, m.offset, m.timestamp)
		}
	}
	bl.SetControl(false)
	bl.SetTransactional(false)
	bl.SetLogAppendTime(false)
	if b, err = bl.Build(); err != nil || b.Attributes() != 0 || b.BaseTimestamp() != 5 || b.MaxTimestamp() != 9 {
		t.Fatalf("header is %+v, %v", decodeHeader(b.raw), err)
	}
	bl.Reset()
	bl.Append(1, nil, nil, nil)
	if b, err = bl.Build(); err != nil || b.ProducerID() != -1 || b.BaseOffset() != 0 || b.BaseTimestamp() != 1 || b.MaxTimestamp() != 1 {
		t.Fatalf("after Reset the header is %+v, %v", decodeHeader(b.raw), err)
	}
}

func TestNullEmptyAndRepeatedHeadersSurvive(t *testing.T) {
	t.Parallel()
	want := []message{
		{offset: 0, headers: []RecordHeader{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("b")}, {Key: []byte("a"), Value: []byte("2")}, {Key: []byte("a"), Value: []byte("1")}}},
		{offset: 1, key: []byte{}, value: []byte{}, headers: []RecordHeader{{Key: []byte{}, Value: []byte{}}}},
		{offset: 2, key: []byte("k")},
		{offset: 3, value: bytes.Repeat([]byte("v"), 1<<20)},
	}
	bl := NewBuilder()
	for _, m := range want {
		bl.Append(m.timestamp, m.key, m.value, m.headers)
	}
	b, err := bl.Build()
	if err != nil {
		t.Fatal(err)
	}
	sameMessages(t, read(t, b), want)
}

func TestTimestampsOfAnyDistanceSurvive(t *testing.T) {
	t.Parallel()
	times := []int64{0, -1, math.MaxInt64, math.MinInt64, 1700000000000, math.MinInt64 + 1}
	bl := NewBuilder()
	for _, ts := range times {
		bl.Append(ts, nil, nil, nil)
	}
	b, err := bl.Build()
	if err != nil {
		t.Fatal(err)
	}
	if b.MaxTimestamp() != math.MaxInt64 {
		t.Errorf("max timestamp %d", b.MaxTimestamp())
	}
	for i, m := range read(t, b) {
		if m.timestamp != times[i] {
			t.Errorf("record %d has time %d, want %d", i, m.timestamp, times[i])
		}
	}
}

func TestAppendAtLeavesGaps(t *testing.T) {
	t.Parallel()
	bl := NewBuilder()
	bl.SetBaseOffset(100)
	bl.AppendAt(3, 1, nil, nil, nil)
	bl.AppendAt(math.MaxInt32-1, 1, nil, nil, nil)
	bl.Append(1, nil, nil, nil)
	b, err := bl.Build()
	if err != nil {
		t.Fatal(err)
	}
	sameMessages(t, read(t, b), []message{{offset: 103, timestamp: 1}, {offset: 100 + math.MaxInt32 - 1, timestamp: 1}, {offset: 100 + math.MaxInt32, timestamp: 1}})
	if b.Count() != 3 || b.LastOffsetDelta() != math.MaxInt32 {
		t.Fatalf("count %d, last offset delta %d", b.Count(), b.LastOffsetDelta())
	}
	wantKind(t, b.Validate(Limits{Dense: true}), ErrMalformed)
}

func TestBuilderRefuses(t *testing.T) {
	t.Parallel()
	big := make([]byte, MaxBatchSize)
	for _, c := range []struct {
		name string
		fill func(*Builder)
		want error
	}{
		{"nothing", func(*Builder) {}, ErrMalformed},
		{"an offset twice", func(b *Builder) { b.AppendAt(4, 0, nil, nil, nil); b.AppendAt(4, 0, nil, nil, nil) }, ErrMalformed},
		{"a negative offset delta", func(b *Builder) { b.AppendAt(-1, 0, nil, nil, nil) }, ErrMalformed},
		{"an offset delta past the last", func(b *Builder) { b.AppendAt(math.MaxInt32, 0, nil, nil, nil); b.Append(0, nil, nil, nil) }, ErrTooLarge},
		{"a negative base", func(b *Builder) { b.SetBaseOffset(-5); b.Append(0, nil, nil, nil) }, ErrMalformed},
		{"offsets past the largest", func(b *Builder) {
			b.SetBaseOffset(math.MaxInt64)
			b.Append(0, nil, nil, nil)
			b.Append(0, nil, nil, nil)
		}, ErrMalformed},
		{"gzip", func(b *Builder) { b.SetCodec(Gzip); b.Append(0, nil, nil, nil) }, ErrCodec},
		{"snappy", func(b *Builder) { b.SetCodec(Snappy); b.Append(0, nil, nil, nil) }, ErrCodec},
		{"codec 8", func(b *Builder) { b.SetCodec(8); b.Append(0, nil, nil, nil) }, ErrCodec},
		{"a record over the limit", func(b *Builder) { b.Append(0, nil, big, nil) }, ErrTooLarge},
		{"a header over the limit", func(b *Builder) { b.Append(0, nil, nil, []RecordHeader{{Key: big}}) }, ErrTooLarge},
		{"a record that does not fit any more", func(b *Builder) {
			b.Append(0, nil, big[:MaxBatchSize/2], nil)
			b.Append(0, nil, big[:MaxBatchSize/2], nil)
			b.Append(0, nil, nil, nil)
		}, ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			bl := NewBuilder()
			c.fill(bl)
			_, err := bl.Build()
			wantKind(t, err, c.want)
			dst, err := bl.AppendTo([]byte("kept"))
			wantKind(t, err, c.want)
			if string(dst) != "kept" {
				t.Errorf("AppendTo left %q", dst)
			}
			bl.Reset()
			bl.Append(0, nil, nil, nil)
			if _, err := bl.Build(); err != nil {
				t.Errorf("after Reset: %v", err)
			}
		})
	}
}

func TestLargestBatchIsBuiltAndTaken(t *testing.T) {
	t.Parallel()
	// Around the value: the record's length in four bytes, five fields of one byte, the value's length in four.
	value := make([]byte, MaxBatchSize-HeaderSize-4-5-4)
	bl := NewBuilder()
	bl.Append(0, nil, value, nil)
	b, err := bl.Build()
	if err != nil {
		t.Fatal(err)
	}
	if b.Len() != MaxBatchSize {
		t.Fatalf("%d bytes, want %d", b.Len(), MaxBatchSize)
	}
	if b, _, err = Parse(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := b.Validate(Limits{Dense: true}); err != nil {
		t.Fatal(err)
	}
	bl.Reset()
	bl.Append(0, nil, append(value, 0), nil)
	_, err = bl.Build()
	wantKind(t, err, ErrTooLarge)
}
