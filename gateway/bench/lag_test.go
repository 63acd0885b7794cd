package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"polylog/logstore/seed"
)

func TestLagIsFromAcknowledgementToArrivalWhicheverIsFirst(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	m := newLagMeter(2)
	const total = 1000
	late := 0
	for _, n := range r.Perm(total) {
		producer, number := n%2, uint64(n/2)*pageNumbers/100 // over several pages
		acked, arrived := time.Duration(n)*time.Second, time.Duration(n)*time.Second+5*time.Millisecond
		if n%4 == 0 {
			acked, arrived = arrived, acked
		} else {
			late++
		}
		if r.IntN(2) == 0 { // whoever is told first
			m.confirmed(producer, number, acked)
			m.arrived(producer, number, arrived)
		} else {
			m.arrived(producer, number, arrived)
			m.confirmed(producer, number, acked)
		}
	}
	if m.lag.count != total || m.early != uint64(total-late) || m.earlyShare() != 0.25 {
		t.Errorf("%d lags, %d of them early (%v)", m.lag.count, m.early, m.earlyShare())
	}
	if at := m.lag.Quantile(0.24); at != 0 {
		t.Errorf("what was early has a lag of %v", at)
	}
	if l := m.lag.Latency(); l.P50 < 0.005 || l.Max != 0.005 {
		t.Errorf("lags %+v, want 5 ms", l)
	}
}

func TestLagOfWhatIsNotKnownFullyIsNotCounted(t *testing.T) {
	t.Parallel()
	m := newLagMeter(1)
	if m.earlyShare() != 0 {
		t.Error("nothing was early")
	}
	m.confirmed(0, 1, 0) // at the very beginning, and it never arrives
	m.arrived(0, 2, 0)
	if m.lag.count != 0 {
		t.Errorf("%d lags", m.lag.count)
	}
	m.arrived(0, 1, time.Second)
	if m.lag.count != 1 || m.lag.max != time.Second {
		t.Errorf("%d lags up to %v", m.lag.count, m.lag.max)
	}
}

func TestLagOfRoundsIsTheirMedianAndTheirMaximum(t *testing.T) {
	t.Parallel()
	got := medianLatency([]Latency{{1, 10, 100, 1000}, {3, 30, 300, 5000}, {2, 20, 200, 2000}})
	if want := (Latency{2, 20, 200, 5000}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// aNodeBehind passes connections on to another one, and all that comes back as much later.
func aNodeBehind(t *testing.T, to string, by time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			go func() {
				io.Copy(far, near) //nolint:errcheck // one of the two has ended
				far.Close()
			}()
			go func() {
				defer near.Close()
				for piece := make([]byte, 64<<10); ; {
					n, err := far.Read(piece)
					<-time.After(by)
					if _, writeErr := near.Write(piece[:n]); err != nil || writeErr != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func aKafka(t *testing.T) string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

func aLag(node string, readers ...string) *Lag {
	return &Lag{
		Kafka:   Kafka{Broker: node, Topic: "lag", Replicas: -1, Acks: "all", Compression: "none", Idempotent: true, BatchBytes: 1 << 20},
		Readers: readers, Load: Load{Producers: 2, Queues: 3, Size: 100, Window: 100, Messages: 1000, Patience: 10 * time.Second}, Rounds: 1, Share: 0.5,
	}
}

func TestLagOfANodeThatIsBehindIsSeen(t *testing.T) {
	t.Parallel()
	const by = 50 * time.Millisecond
	node := aKafka(t)
	behind := aNodeBehind(t, node, by)
	results, err := aLag(node, node, behind).Run(t.Context(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 2 || results[0].Reader != node || results[1].Reader != behind {
		t.Fatalf("results %+v", results)
	}
	for _, r := range results {
		if r.Broker != node || r.Rounds != 1 || r.FullRate <= 0 || r.Rate <= 0 || r.ConfirmLatency.P50 <= 0 || r.Lag.Max < r.Lag.P99 || r.Early < 0 || r.Early > 1 {
			t.Errorf("result %+v", r)
		}
	}
	if at := results[1].Lag; at.Max < (by / 5).Seconds() {
		t.Errorf("the node that is %v behind has lags of %+v", by, at)
	}
	var text, markdown, js bytes.Buffer
	var back []LagResult
	if err := errors.Join(WriteLagTable(&text, results), WriteLagMarkdown(&markdown, results), WriteLagJSON(&js, results), json.Unmarshal(js.Bytes(), &back)); err != nil {
		t.Fatal(err)
	}
	if len(back) != 2 || back[1] != results[1] || !strings.HasPrefix(markdown.String(), "| acknowledged at ") || !strings.Contains(text.String(), "the same") {
		t.Errorf("printed as\n%s%s%s", text.String(), markdown.String(), js.String())
	}
}

func TestLagIsMeasuredAtTheRateThatWasAskedFor(t *testing.T) {
	t.Parallel()
	node := aKafka(t)
	l := aLag(node, node)
	l.Load.Rate = 5000
	results, err := l.Run(t.Context(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if r := results[0]; r.FullRate != 0 || r.Rate > 5100 {
		t.Errorf("result %+v", r)
	}
}

func TestLagRefusesWhatItCannotMeasure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(*Lag)
		want   string
	}{
		{func(l *Lag) { l.Kafka.Broker = "a:1,b:2" }, "is one, not 2"},
		{func(l *Lag) { l.Readers = nil }, "without a node to read from"},
		{func(l *Lag) { l.Readers = []string{"b"} }, "host:port"},
		{func(l *Lag) { l.Share = 0 }, "the share must be above 0"},
		{func(l *Lag) { l.Load.Size = 8 }, "the size must be from 32"},
		{func(l *Lag) { l.Kafka.Acks = "1" }, "an idempotent producer needs acks=all"},
	} {
		l := aLag("a:1", "b:2")
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
		c.change(l)
		if err := l.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", l, err, c.want)
		}
	}
	unknown := aLag(aNodeBehind(t, aKafka(t), 0), "b:2") // the node knows itself by another address
	if _, err := unknown.Run(t.Context(), quiet); err == nil || !strings.Contains(err.Error(), "the one that it advertises") {
		t.Errorf("%v", err)
	}
}
