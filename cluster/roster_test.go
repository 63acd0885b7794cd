package cluster

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"testing"

	"polylog/logstore"
)

// entry makes a chunk as it is read from the stream.
func entry(t testing.TB, k kind, writer string, epoch, number, incarnation uint64, body []byte) chunk {
	t.Helper()
	b := append(beginChunk(nil, k, writer, epoch, incarnation), body...)
	finishChunk(b, number)
	c, err := parseChunk(b)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOnlyTheNextChunkOfALiveEpochCounts(t *testing.T) {
	t.Parallel()
	r := newRoster()
	sequence := uint64(0)
	for _, step := range []struct {
		what               string
		k                  kind
		writer             string
		epoch, number, inc uint64
		body               []byte
		want               verdict
	}{
		{"data of one who never joined", kindData, "a", 1, 1, 7, nil, expired},
		{"a join that skips an epoch", kindJoin, "a", 2, 1, 7, []byte("{}"), expired},
		{"a joins", kindJoin, "a", 1, 1, 7, []byte("{}"), accepted},
		{"the same join again", kindJoin, "a", 1, 1, 7, []byte("{}"), repeated},
		{"another process that wants the epoch too", kindJoin, "a", 1, 1, 8, []byte("{}"), expired},
		{"data of that process", kindData, "a", 1, 2, 8, nil, expired},
		{"a gap", kindData, "a", 1, 3, 7, nil, early},
		{"the next", kindData, "a", 1, 2, 7, nil, accepted},
		{"the next again", kindData, "a", 1, 2, 7, nil, repeated},
		{"b joins", kindJoin, "b", 1, 1, 9, []byte("{}"), accepted},
		{"b declares a gone, but of another epoch", kindGone, "b", 1, 2, 9, appendAbout(nil, "a", 5), accepted},
		{"a goes on", kindData, "a", 1, 3, 7, nil, accepted},
		{"b forgets a, which lives", kindForget, "b", 1, 3, 9, appendAbout(nil, "a", 1), accepted},
		{"a goes on", kindData, "a", 1, 4, 7, nil, accepted},
		{"b declares a gone", kindGone, "b", 1, 4, 9, appendAbout(nil, "a", 1), accepted},
		{"a does not know yet", kindData, "a", 1, 5, 7, nil, expired},
		{"a comes back", kindJoin, "a", 2, 1, 7, []byte("{}"), accepted},
		{"what was on its way from before", kindData, "a", 1, 5, 7, nil, expired},
		{"a goes on", kindData, "a", 2, 2, 7, nil, accepted},
		{"a leaves", kindLeave, "a", 2, 3, 7, appendAbout(nil, "a", 2), accepted},
		{"and has left", kindData, "a", 2, 4, 7, nil, expired},
		{"b forgets it", kindForget, "b", 1, 5, 9, appendAbout(nil, "a", 2), accepted},
		{"its epochs go on counting", kindJoin, "a", 1, 1, 10, []byte("{}"), expired},
		{"its epochs go on counting", kindJoin, "a", 3, 1, 10, []byte("{}"), accepted},
	} {
		c := entry(t, step.k, step.writer, step.epoch, step.number, step.inc, step.body)
		sequence++
		got := r.judge(&c)
		if got != step.want {
			t.Fatalf("%s: %s, want %s", step.what, got, step.want)
		}
		if got == accepted {
			if _, _, err := r.take(&c, sequence); err != nil {
				t.Fatalf("%s: %v", step.what, err)
			}
		}
	}
	if ms := r.live(); len(ms) != 2 || ms[0].Name != "a" || ms[0].Epoch != 3 || ms[1].Name != "b" {
		t.Errorf("live are %+v", ms)
	}
	if a, b := r.members["a"].ID, r.members["b"].ID; a == b || a == 0 || b == 0 {
		t.Errorf("the numbers are %d and %d", a, b)
	}
}

func TestMembersKeepTheirNumbers(t *testing.T) {
	t.Parallel()
	r := newRoster()
	join := func(name string, epoch uint64, description string) int32 {
		c := entry(t, kindJoin, name, epoch, 1, epoch, []byte(description))
		if v := r.judge(&c); v != accepted {
			t.Fatalf("%s is %s", name, v)
		}
		if _, _, err := r.take(&c, epoch); err != nil {
			t.Fatal(err)
		}
		return r.members[name].ID
	}
	for _, x := range []struct {
		name        string
		epoch       uint64
		description string
		want        int32
	}{
		{"a", 1, "{}", 1}, {"b", 1, "{}", 2}, {"a", 2, "{}", 1}, {"c", 1, `{"id":7}`, 7}, {"d", 1, `{"id":7}`, 3}, {"e", 1, `{"id":2}`, 4}, {"c", 2, `{"id":7}`, 7},
	} {
		if got := join(x.name, x.epoch, x.description); got != x.want {
			t.Errorf("%s in epoch %d has number %d, want %d", x.name, x.epoch, got, x.want)
		}
	}
}

func TestALostDiskLeavesItsServerToBeRemoved(t *testing.T) {
	t.Parallel()
	r := newRoster()
	for i, server := range []string{"a-1", "a-1", "a-2"} {
		c := entry(t, kindJoin, "a", uint64(i+1), 1, 1, []byte(`{"server":"`+server+`"}`))
		ops, _, err := r.take(&c, uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if want := 2; i == 2 {
			want++
			if len(ops) != want {
				t.Errorf("%d operations, want %d: the old server's name is noted", len(ops), want)
			}
		} else if len(ops) != want {
			t.Errorf("%d operations, want %d", len(ops), want)
		}
	}
}

func TestChunkReadsAsWritten(t *testing.T) {
	t.Parallel()
	c := entry(t, kindPart, "node-1", 3, 4, 5, []byte("piece"))
	if c.kind != kindPart || c.writer != "node-1" || c.epoch != 3 || c.number != 4 || c.incarnation != 5 || string(c.body) != "piece" {
		t.Errorf("read %+v", c)
	}
}

func TestEveryDamagedBitOfAChunkIsFound(t *testing.T) {
	t.Parallel()
	good := append(beginChunk(nil, kindData, "n", 1, 2), "\x05hello\x01x"...)
	finishChunk(good, 9)
	for i := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			if c, err := parseChunk(b); !errors.Is(err, errBadChunk) {
				t.Fatalf("bit %d of byte %d: read %+v, %v", bit, i, c, err)
			}
		}
		if i > 0 {
			if _, err := parseChunk(good[:i]); err == nil {
				t.Fatalf("%d of %d bytes are read as a chunk", i, len(good))
			}
		}
	}
}

func TestUnknownVersionsAreRefused(t *testing.T) {
	t.Parallel()
	b := beginChunk(nil, kindData, "n", 1, 2)
	b[0] = chunkVersion + 1
	finishChunk(b, 1)
	var v *VersionError
	if _, err := parseChunk(b); !errors.As(err, &v) || v.Got != chunkVersion+1 {
		t.Errorf("a chunk of version %d: %v", chunkVersion+1, err)
	}
	b = beginChunk(nil, kindForget+1, "n", 1, 2)
	finishChunk(b, 1)
	if _, err := parseChunk(b); !errors.As(err, &v) {
		t.Errorf("an unknown kind of chunk: %v", err)
	}
	w := (&writer{epoch: 1}).encode()
	w[0]++
	if _, err := parseWriter(w); !errors.As(err, &v) {
		t.Errorf("an unknown version of a writer's place: %v", err)
	}
}

func TestNumbersOfTheOrderAscend(t *testing.T) {
	t.Parallel()
	for _, base := range []uint64{0, baseFor(1), baseFor(4096), baseFor(1 << 40)} {
		n := numbering{base}
		last := uint64(0)
		for sequence := uint64(1); sequence < 4; sequence++ {
			for _, place := range []int{0, 1, proposalsMax} {
				x := n.number(sequence, place)
				if s, p := n.split(x); s != sequence || p != place || x <= last {
					t.Fatalf("base %d: %d.%d is %d and comes back as %d.%d", base, sequence, place, x, s, p)
				}
				last = x
			}
		}
		if s, _ := n.split(base); base > 0 && s != 0 {
			t.Errorf("the base itself is in sequence %d", s)
		}
	}
	for _, last := range []uint64{1, 4095, 4096, 4097, 1 << 50} {
		if b := baseFor(last); b <= last || b%4096 != 0 {
			t.Errorf("the base above %d is %d", last, b)
		}
	}
}

// FuzzChunk holds that no bytes make reading a chunk, or taking it in, fail in another way than by an error.
func FuzzChunk(f *testing.F) {
	for k := kindData; k <= kindForget; k++ {
		b := append(beginChunk(nil, k, "n", 1, 2), "\x01x\x02yy and more"...)
		finishChunk(b, 1)
		f.Add(b[8:], uint8(k))
	}
	f.Fuzz(func(t *testing.T, rest []byte, k uint8) {
		b := append([]byte{chunkVersion, k, 1, 0, 0, 0, 0, 0}, rest...)
		if len(b) < chunkHeader {
			return
		}
		sealAnyway(b)
		c, err := parseChunk(b)
		if err != nil {
			return
		}
		r := newRoster()
		r.writers[c.writer] = &writer{epoch: c.epoch, number: c.number - 1, incarnation: c.incarnation, live: true}
		if r.judge(&c) == accepted {
			r.take(&c, 1)                                                      //nolint:errcheck // any error will do
			c.proposals(func(int, []byte) error { return logstore.ErrClosed }) //nolint:errcheck // likewise
		}
	})
}

// sealAnyway makes the checksum right, so that what is behind it is reached.
func sealAnyway(b []byte) {
	number := uint64(0)
	for i := range 8 {
		number |= uint64(b[16+i]) << (8 * i)
	}
	finishChunk(b, number)
}

// live returns the members whose epoch goes on, by name.
func (r *roster) live() (ms []Member) {
	for _, name := range slices.Sorted(maps.Keys(r.members)) {
		if m := r.members[name]; m.Live {
			ms = append(ms, m)
		}
	}
	return ms
}
