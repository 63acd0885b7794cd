package kafka

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/topic"
)

// sessionRequest asks for partitions of a topic, from offset 0 on, in a session.
func sessionRequest(version int16, t *topic.Topic, id, epoch int32, partitions ...int32) *kmsg.FetchRequest {
	req := fetchRequest(version, t, 0)
	req.SessionID, req.SessionEpoch = id, epoch
	if req.Topics[0].Partitions = nil; len(partitions) == 0 {
		req.Topics = nil
	}
	for _, p := range partitions {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.FetchRequestTopicPartition{Partition: p, PartitionMaxBytes: 1 << 20, CurrentLeaderEpoch: -1})
	}
	return req
}

// told returns the partitions that an answer has.
func told(resp kmsg.Response) []int32 {
	var ps []int32
	for _, t := range resp.(*kmsg.FetchResponse).Topics {
		for _, p := range t.Partitions {
			ps = append(ps, p.Partition)
		}
	}
	return ps
}

// In a session the client says, and is told, only what has changed (KIP-227).
func TestFetchSession(t *testing.T) {
	t.Parallel()
	for _, version := range []int16{7, 12, 13, 18} {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, nil)
			b.t = t
			tp := b.topic("example", func(s *topic.Spec) { s.Partitions = 5 })
			r := b.dial()
			full := r.ask(sessionRequest(version, tp, 0, 0, 0, 1, 2)).(*kmsg.FetchResponse)
			id := full.SessionID
			if got := told(full); id == 0 || !slices.Equal(got, []int32{0, 1, 2}) {
				t.Fatalf("a full fetch: session %d, partitions %v", id, got)
			}
			epoch := int32(0)
			next := func(what string, want []int32, change func(*kmsg.FetchRequest), partitions ...int32) {
				t.Helper()
				epoch++
				req := sessionRequest(version, tp, id, epoch, partitions...)
				if change != nil {
					change(req)
				}
				resp := r.ask(req).(*kmsg.FetchResponse)
				if got := told(resp); resp.ErrorCode != 0 || resp.SessionID != id || !slices.Equal(got, want) {
					t.Fatalf("%s: error %d, session %d, partitions %v; want session %d, %v", what, resp.ErrorCode, resp.SessionID, got, id, want)
				}
			}
			forget := func(ps ...int32) func(*kmsg.FetchRequest) {
				return func(req *kmsg.FetchRequest) {
					req.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "example", TopicID: tp.ID, Partitions: ps}}
				}
			}
			at := func(offset int64) func(*kmsg.FetchRequest) {
				return func(req *kmsg.FetchRequest) { req.Topics[0].Partitions[0].FetchOffset = offset }
			}
			next("nothing new", nil, nil)
			r.produce(tp, 1, batchOf(t, nil, "a"))
			next("a record", []int32{1}, nil)
			next("the same record, as it was not read", []int32{1}, nil)
			next("the record is read", nil, at(1), 1)
			r.produce(tp, 0, batchOf(t, nil, "a"))
			r.produce(tp, 1, batchOf(t, nil, "b"))
			r.produce(tp, 2, batchOf(t, nil, "a"))
			next("records in all; that which had some last is last", []int32{0, 2, 1}, nil)
			next("forgotten", []int32{2, 1}, forget(0))
			next("forgotten, and one more", []int32{2, 4}, forget(1), 4)
			next("that which had records is behind", []int32{2}, nil)
			next("an error", []int32{2, 9}, nil, 9)
			next("an error is told each time", []int32{9, 2}, nil)
			next("the error is over", []int32{2}, forget(9))

			mistakes := []struct {
				id, epoch int32
				code      int16
			}{
				{id, epoch, codeInvalidFetchSessionEpoch}, {id, epoch + 2, codeInvalidFetchSessionEpoch}, {id, 1 << 30, codeInvalidFetchSessionEpoch},
				{id + 1, 1, codeFetchSessionIDNotFound}, {0, 1, codeFetchSessionIDNotFound},
			}
			for _, m := range mistakes {
				resp := r.ask(sessionRequest(version, tp, m.id, m.epoch)).(*kmsg.FetchResponse)
				if resp.ErrorCode != m.code || len(resp.Topics) > 0 {
					t.Errorf("session %d, epoch %d: error %d, want %d", m.id, m.epoch, resp.ErrorCode, m.code)
				}
			}
			next("after mistakes", []int32{2}, nil)
			other := map[bool]int16{true: 12, false: 13}[version >= 13]
			if resp := r.ask(sessionRequest(other, tp, id, epoch+1)).(*kmsg.FetchResponse); resp.ErrorCode != codeFetchSessionTopicIDError {
				t.Errorf("names and ids in one session: error %d", resp.ErrorCode)
			}
			again := r.ask(sessionRequest(version, tp, id, 0, 3)).(*kmsg.FetchResponse)
			if again.SessionID == id || again.SessionID == 0 || !slices.Equal(told(again), []int32{3}) {
				t.Errorf("a new session for the old one: %+v", again)
			}
			if resp := r.ask(sessionRequest(version, tp, id, epoch+1)).(*kmsg.FetchResponse); resp.ErrorCode != codeFetchSessionIDNotFound {
				t.Errorf("the old session is still there: error %d", resp.ErrorCode)
			}
			last := r.ask(sessionRequest(version, tp, again.SessionID, -1, 3)).(*kmsg.FetchResponse)
			if last.SessionID != 0 || !slices.Equal(told(last), []int32{3}) || b.server.Figures().FetchSessions != 0 {
				t.Errorf("the end of a session: %+v", last)
			}
		})
	}
}

// With as many sessions as may be, a new one takes the place of one whose connection is gone, or that was not used for a while; if there is none, there is none.
func TestFetchSessionsMakeRoom(t *testing.T) {
	t.Parallel()
	clock := atomic.Int64{}
	b := startBroker(t, func(o *Options) {
		o.Limits.FetchSessions = 2
		o.Now = func() time.Time { return time.UnixMilli(clock.Load()) }
	})
	tp := b.topic("example", nil)
	begin := func(r *rawConn) int32 { return r.ask(sessionRequest(12, tp, 0, 0, 0)).(*kmsg.FetchResponse).SessionID }
	goOn := func(r *rawConn, id, epoch int32) int16 {
		return r.ask(sessionRequest(12, tp, id, epoch)).(*kmsg.FetchResponse).ErrorCode
	}
	one, two, three := b.dial(), b.dial(), b.dial()
	first, second := begin(one), begin(two)
	if first == 0 || second == 0 {
		t.Fatal("no session")
	}
	if id := begin(three); id != 0 {
		t.Errorf("a third session while both are in use: %d", id)
	}
	clock.Add((sessionRest - time.Second).Milliseconds())
	if code := goOn(two, second, 1); code != 0 {
		t.Errorf("error %d", code)
	}
	clock.Add(time.Second.Milliseconds())
	third := begin(three)
	if third == 0 {
		t.Error("the first was not used for long enough, and is kept")
	}
	if code := goOn(one, first, 1); code != codeFetchSessionIDNotFound {
		t.Errorf("the first is there: error %d", code)
	}
	if code := goOn(two, second, 2); code != 0 {
		t.Errorf("the second, which is in use, is gone: error %d", code)
	}
	two.conn.Close()
	eventually(t, "the connection is gone", func() bool { return b.server.Figures().Connections == 2 })
	if id := begin(one); id == 0 {
		t.Error("the session of a connection that is gone is kept")
	}
	if f := b.server.Figures(); f.FetchSessions != 2 || f.FetchEvictions != 2 {
		t.Errorf("%+v", f)
	}
}

// Behind epoch 2^31-1 of a session comes 1.
func TestFetchSessionEpochWraps(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", nil)
	r := b.dial()
	id := r.ask(sessionRequest(12, tp, 0, 0, 0)).(*kmsg.FetchResponse).SessionID
	b.server.sessions.mu.Lock()
	s := b.server.sessions.byID[id]
	b.server.sessions.mu.Unlock()
	s.mu.Lock()
	s.epoch = 1<<31 - 1
	s.mu.Unlock()
	for _, epoch := range []int32{1<<31 - 1, 1, 2} {
		if resp := r.ask(sessionRequest(12, tp, id, epoch)).(*kmsg.FetchResponse); resp.ErrorCode != 0 {
			t.Errorf("epoch %d: error %d", epoch, resp.ErrorCode)
		}
	}
}

// The partitions of all sessions are bounded too: a session that would be too large does not begin, one that becomes too large ends, and its client goes on without.
func TestFetchSessionsHaveBoundedPartitions(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	b.server.sessions.room = 5
	tp := b.topic("example", func(s *topic.Spec) { s.Partitions = 10 })
	r := b.dial()
	if resp := r.ask(sessionRequest(12, tp, 0, 0, 0, 1, 2, 3, 4, 5)).(*kmsg.FetchResponse); resp.SessionID != 0 || len(told(resp)) != 6 {
		t.Errorf("a session of 6: %+v", resp)
	}
	id := r.ask(sessionRequest(12, tp, 0, 0, 0, 1, 2, 3)).(*kmsg.FetchResponse).SessionID
	if resp := r.ask(sessionRequest(12, tp, id, 1, 4)).(*kmsg.FetchResponse); id == 0 || resp.ErrorCode != 0 {
		t.Errorf("a session of 5: %+v", resp)
	}
	if resp := r.ask(sessionRequest(12, tp, id, 2, 5)).(*kmsg.FetchResponse); resp.ErrorCode != codeFetchSessionIDNotFound {
		t.Errorf("it grows to 6: %+v", resp)
	}
	if f := b.server.Figures(); f.FetchSessions != 0 || b.server.sessions.parts != 0 {
		t.Errorf("%d sessions with %d partitions are left", f.FetchSessions, b.server.sessions.parts)
	}
}
