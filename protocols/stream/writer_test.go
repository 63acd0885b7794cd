package stream

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// pair returns the two ends of a connection over loopback: a real one, whose kernel buffers what is not read.
func pair(t testing.TB) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			close(accepted)
			return
		}
		accepted <- c
	}()
	if theirs, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	ours, ok := <-accepted
	if !ok {
		t.Fatal("nothing was accepted")
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

func TestWriterKeepsPiecesWholeAndEachWritersOrder(t *testing.T) {
	t.Parallel()
	ours, theirs := pair(t)
	w := NewWriter(ours, 1<<20, time.Minute, nil)
	const writers, pieces = 8, 2000
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := range pieces {
				b := w.Begin()
				b = binary.BigEndian.AppendUint16(b, uint16(i))
				b = binary.BigEndian.AppendUint32(b, uint32(n))
				w.End(b)
			}
		})
	}
	go func() {
		wg.Wait()
		w.Close()
		ours.Close()
	}()
	got, err := io.ReadAll(theirs)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != writers*pieces*6 || int64(len(got)) != w.Written() {
		t.Fatalf("%d bytes arrived, %d were counted, %d written", len(got), w.Written(), writers*pieces*6)
	}
	var next [writers]uint32
	for ; len(got) > 0; got = got[6:] {
		i, n := binary.BigEndian.Uint16(got), binary.BigEndian.Uint32(got[2:])
		if int(i) >= writers || n != next[i] {
			t.Fatalf("piece %d of writer %d is out of order", n, i)
		}
		next[i]++
	}
}

func TestWriterGivesUpAPeerThatTakesNothing(t *testing.T) {
	t.Parallel()
	ours, _ := pair(t)
	w := NewWriter(ours, 1<<20, 50*time.Millisecond, nil)
	block := make([]byte, 1<<20)
	for w.Await() == nil {
		w.Write(block)
	}
	if err := w.Close(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if _, err := ours.Write(block); err == nil {
		t.Error("the connection is still open")
	}
	w.Write(block)
	if w.Waiting() != 0 {
		t.Error("it gathers for a peer that was given up")
	}
}

func TestWriterTellsOnceWhenItHasDrained(t *testing.T) {
	t.Parallel()
	ours, theirs := pair(t)
	told := make(chan int, 100)
	var w *Writer
	ready := make(chan struct{})
	w = NewWriter(ours, 100_000, time.Minute, func() {
		<-ready
		told <- w.Waiting()
	})
	close(ready)
	block := make([]byte, 50_000)
	written := 0
	for w.Room() > 0 {
		w.Write(block)
		written += len(block)
	}
	if w.Waiting() < 100_000 {
		t.Fatalf("no room with %d bytes waiting", w.Waiting())
	}
	select {
	case n := <-told:
		t.Fatalf("told with %d bytes waiting while nobody reads", n)
	default:
	}
	if _, err := io.CopyN(io.Discard, theirs, int64(written)); err != nil {
		t.Fatal(err)
	}
	if n := <-told; n > 50_000 {
		t.Errorf("told with %d bytes waiting", n)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if len(told) > 0 {
		t.Error("told twice")
	}
}

func TestWriterCloseWritesWhatWaits(t *testing.T) {
	t.Parallel()
	ours, theirs := pair(t)
	w := NewWriter(ours, 10, time.Minute, nil)
	go func() {
		for range 100 {
			w.Write(make([]byte, 10_000))
		}
		w.Close()
		w.Write([]byte("too late"))
		ours.Close()
	}()
	n, err := io.Copy(io.Discard, theirs)
	if err != nil || n != 1_000_000 {
		t.Fatalf("%d bytes arrived, %v", n, err)
	}
	if err := w.Await(); !errors.Is(err, ErrWriterClosed) {
		t.Errorf("Await says %v", err)
	}
}

func TestWritingAllocatesNothing(t *testing.T) {
	ours, theirs := pair(t)
	go io.Copy(io.Discard, theirs) //nolint:errcheck // it ends when the test does
	w := NewWriter(ours, 1<<20, time.Minute, nil)
	frame := make([]byte, 1000)
	allocs := testing.AllocsPerRun(5000, func() {
		for range 10 {
			w.Write(frame)
		}
		if err := w.Await(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0.5 {
		t.Errorf("%v allocations for ten frames", allocs)
	}
	w.Close()
}
