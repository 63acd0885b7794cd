package stream

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"testing/iotest"

	"polylog/logstore/seed"
)

// chunks gives what a connection would: pieces of some size, now and then a read that timed out.
type chunks struct {
	data    []byte
	next    func() int // bytes of the next read; 0: it times out
	largest int        // room that was offered
}

func (c *chunks) Read(p []byte) (int, error) {
	c.largest = max(c.largest, len(p))
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := min(c.next(), len(p), len(c.data))
	if n == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	copy(p, c.data[:n])
	c.data = c.data[n:]
	return n, nil
}

func TestReaderGivesTheBytesInOrderWhateverTheReads(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	want := make([]byte, 3<<20)
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	src := &chunks{data: want, next: func() int {
		switch rng.IntN(4) {
		case 0:
			return 0
		case 1:
			return rng.IntN(10)
		default:
			return rng.IntN(200_000)
		}
	}}
	r := NewReader(src, 300_000)
	var got []byte
	for {
		n := rng.IntN(100)
		if rng.IntN(20) == 0 {
			n = rng.IntN(300_000)
		}
		n = min(n, len(want)-len(got))
		b, err := r.Take(n)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b...)
		if len(got) == len(want) {
			break
		}
	}
	if !bytes.Equal(got, want) {
		t.Fatal("the bytes differ")
	}
	if _, err := r.Peek(1); err != io.EOF {
		t.Fatalf("at the end: %v", err)
	}
	if src.largest > 300_000 {
		t.Errorf("a buffer of %d bytes was used for pieces of at most 300,000", src.largest)
	}
}

func TestReaderMemoryFollowsWhatArrivedNotWhatIsClaimed(t *testing.T) {
	t.Parallel()
	src := &chunks{data: make([]byte, 100), next: func() int { return 100 }}
	r := NewReader(src, 1<<30)
	if _, err := r.Peek(1 << 30); err != io.ErrUnexpectedEOF {
		t.Fatalf("half a piece: %v", err)
	}
	if len(r.buf) > calmBytes {
		t.Errorf("%d bytes of memory for 100 that arrived", len(r.buf))
	}
}

func TestReaderRefusesWhatIsOverTheBoundBeforeReading(t *testing.T) {
	t.Parallel()
	r := NewReader(iotest.ErrReader(errors.New("it was read")), 1000)
	var long *TooLongError
	if _, err := r.Peek(1001); !errors.As(err, &long) || long.Max != 1000 {
		t.Fatalf("got %v", err)
	}
}

func TestReaderBufferShrinksWhenTheConnectionIsCalm(t *testing.T) {
	t.Parallel()
	size := 200_000
	src := &chunks{data: make([]byte, 1<<20), next: func() int { return size }}
	r := NewReader(src, 200_000)
	if _, err := r.Take(200_000); err != nil {
		t.Fatal(err)
	}
	busy := len(r.buf)
	size = 100
	for range 3 * calmReads {
		if _, err := r.Take(100); err != nil {
			t.Fatal(err)
		}
	}
	if busy < 200_000 || len(r.buf) != calmBytes {
		t.Errorf("the buffer had %d bytes when busy and %d when calm", busy, len(r.buf))
	}
}

func TestReaderKeepsALargeBufferWhileItIsNeeded(t *testing.T) {
	t.Parallel()
	piece := make([]byte, 131_080)
	src := &chunks{data: bytes.Repeat(piece, 300), next: func() int { return len(piece) }}
	r := NewReader(src, len(piece))
	made, last := 0, 0
	for range 300 {
		if _, err := r.Peek(7); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Take(len(piece)); err != nil {
			t.Fatal(err)
		}
		if len(r.buf) != last {
			made, last = made+1, len(r.buf)
		}
	}
	if made > 4 {
		t.Errorf("the buffer was made %d times for equal pieces", made)
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	src := &chunks{next: func() int { return 1000 }}
	r := NewReader(src, 1000)
	data := make([]byte, 1000)
	allocs := testing.AllocsPerRun(1000, func() {
		src.data = data
		for range 10 {
			if _, err := r.Take(100); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}
