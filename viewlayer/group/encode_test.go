package group

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

// What was written is read as it was.
func TestValuesComeBack(t *testing.T) {
	t.Parallel()
	h := head{writes: 1 << 40, generation: 7, since: -5, members: 3, protocolType: "consumer", protocol: "range", leader: "a"}
	if got, err := decodeHead("", h.encode()); err != nil || got != h {
		t.Errorf("%+v %v", got, err)
	}
	m := &member{id: "i", instance: "s", clientID: "c", host: "/h", session: 10 * time.Second, rebalance: time.Minute,
		protocols: []Protocol{{"range", []byte{1, 2}}, {"", []byte{}}}, assignment: []byte("work")}
	if got, err := decodeMember("", m.encode()); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%+v %v", got, err)
	}
	b := Bookmark{TopicPartition: TopicPartition{[16]byte{9}, 4}, Offset: 1 << 60, LeaderEpoch: -1, Metadata: "\x00m", Committed: 5, Expires: 6}
	if got, err := decodeBookmark("", b.TopicPartition, b.encode()); err != nil || got != b {
		t.Errorf("%+v %v", got, err)
	}
	s := producerState{epoch: 3, at: 4, batches: []batchRange{{0, 1<<31 - 1, 0}, {0, 5, 1 << 62}}}
	if got, err := decodeProducer("", s.encode()); err != nil || !reflect.DeepEqual(got.batches, s.batches) || got.epoch != s.epoch || got.at != s.at {
		t.Errorf("%+v %v", got, err)
	}
}

// Bytes that nobody wrote are read without harm: either as something that can be written, or with an error that names the key.
func FuzzValues(f *testing.F) {
	f.Add((&head{writes: 1, members: 2, protocolType: "consumer"}).encode())
	f.Add((&member{id: "i", protocols: []Protocol{{"range", []byte{1}}}}).encode())
	f.Add((&Bookmark{Offset: 5, Metadata: "m"}).encode())
	f.Add((&producerState{batches: []batchRange{{1, 2, 3}}}).encode())
	f.Add((&producerIDs{next: 5, marks: []idMark{{1, 2}}}).encode())
	f.Add([]byte{valueVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		check := func(err error, encode func() []byte, again func([]byte) error) {
			t.Helper()
			var bad *CorruptValueError
			switch {
			case err != nil && (!errors.As(err, &bad) || bad.Key != "k"):
				t.Errorf("%T %v", err, err)
			case err == nil && again(encode()) != nil:
				t.Errorf("what was read cannot be read again: %v", again(encode()))
			}
		}
		h, err := decodeHead("k", b)
		check(err, h.encode, func(b []byte) error { _, err := decodeHead("k", b); return err })
		m, err := decodeMember("k", b)
		check(err, m.encode, func(b []byte) error { _, err := decodeMember("k", b); return err })
		mark, err := decodeBookmark("k", TopicPartition{}, b)
		check(err, mark.encode, func(b []byte) error { _, err := decodeBookmark("k", TopicPartition{}, b); return err })
		s, err := decodeProducer("k", b)
		check(err, s.encode, func(b []byte) error { _, err := decodeProducer("k", b); return err })
		subscribedTopics(b, func([]byte) {})
		parseName(headPrefix, headPrefix+string(b))
		parsePartition(string(b))
		parseProducer(producerPrefix + string(b))
	})
}
