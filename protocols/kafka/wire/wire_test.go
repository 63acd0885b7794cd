package wire

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/logstore/seed"
)

// The fetch response that is encoded around its records has the very bytes that kmsg gives it, in every version.
func TestFetchResponseIsWhatKmsgEncodes(t *testing.T) {
	t.Parallel()
	rng := seed.Rand(t)
	for version := int16(4); version <= 18; version++ {
		for range 50 {
			ours, theirs := randomFetchResponse(rng, version)
			head, parts := ours.Encode(version, []byte("before"), nil)
			if !bytes.HasPrefix(head, []byte("before")) {
				t.Fatal("what was in the buffer is gone")
			}
			got := bytes.Join(parts, nil)
			want := []byte{0, 0, 0, 0, 0, 0, 0, 77}
			if version >= 12 {
				want = append(want, 0)
			}
			want = theirs.AppendTo(want)
			want[0], want[1], want[2], want[3] = byte((len(want)-4)>>24), byte((len(want)-4)>>16), byte((len(want)-4)>>8), byte(len(want)-4)
			if !bytes.Equal(got, want) {
				t.Fatalf("v%d:\n% x\nwant\n% x", version, got, want)
			}
		}
	}
}

func randomFetchResponse(rng *rand.Rand, version int16) (*FetchResponse, *kmsg.FetchResponse) {
	ours := &FetchResponse{Correlation: 77}
	theirs := kmsg.NewPtrFetchResponse()
	theirs.SetVersion(version)
	if version >= 7 {
		ours.ErrorCode, ours.SessionID = int16(rng.IntN(100)), rng.Int32()
		theirs.ErrorCode, theirs.SessionID = ours.ErrorCode, ours.SessionID
	}
	for range rng.IntN(4) {
		t := FetchTopic{Name: string(bytes.Repeat([]byte("n"), rng.IntN(200)))}
		t.ID[rng.IntN(16)] = byte(rng.Int32())
		kt := kmsg.NewFetchResponseTopic()
		kt.Topic, kt.TopicID = t.Name, t.ID
		for range rng.IntN(4) {
			p := FetchPartition{Partition: rng.Int32(), ErrorCode: int16(rng.IntN(100)), HighWatermark: rng.Int64(), LogStart: rng.Int64()}
			kp := kmsg.NewFetchResponseTopicPartition()
			kp.Partition, kp.ErrorCode, kp.HighWatermark, kp.LastStableOffset, kp.LogStartOffset = p.Partition, p.ErrorCode, p.HighWatermark, p.HighWatermark, p.LogStart
			kp.RecordBatches = []byte{}
			for range rng.IntN(3) {
				batch := bytes.Repeat([]byte{byte(rng.Int32())}, rng.IntN(300))
				p.Records = append(p.Records, batch)
				kp.RecordBatches = append(kp.RecordBatches, batch...)
			}
			t.Partitions, kt.Partitions = append(t.Partitions, p), append(kt.Partitions, kp)
		}
		ours.Topics, theirs.Topics = append(ours.Topics, t), append(theirs.Topics, kt)
	}
	return ours, theirs
}

// A produce request passes the check in every version, and no part of it passes, nor it with something behind.
func TestProduceCheckTakesTheWholeRequestAndNothingElse(t *testing.T) {
	t.Parallel()
	for version := int16(0); version <= 13; version++ {
		body := exampleProduce(version).AppendTo(nil)
		if n, err := CheckProduce(body, version); err != nil || n != 6*producePartBytes {
			t.Errorf("v%d: %d, %v", version, n, err)
		}
		for n := range body {
			if _, err := CheckProduce(body[:n], version); err == nil {
				t.Errorf("v%d: the first %d of %d bytes pass", version, n, len(body))
			}
		}
		_, err := CheckProduce(append(body, 0), version)
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("v%d: with a byte behind it: %v", version, err)
		}
	}
}

func exampleProduce(version int16) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TransactionID = version, -1, kmsg.StringPtr("txn")
	for _, name := range []string{"one", "two"} {
		rt := kmsg.ProduceRequestTopic{Topic: name, TopicID: [16]byte{1}}
		rt.Partitions = []kmsg.ProduceRequestTopicPartition{{Partition: 1, Records: make([]byte, 200)}, {Partition: 2}}
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// What a request claims to have is believed only as far as there are bytes for it.
func TestProduceCheckBelievesNoClaim(t *testing.T) {
	t.Parallel()
	claims := map[string][]byte{
		"2^31-1 topics":           {0xff, 0xff, 0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff},
		"-2 topics":               {0xff, 0xff, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xfe},
		"a transactional id":      {0x7f, 0xff, 0, 1, 0, 0, 0, 0},
		"a name of -2 bytes":      {0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xfe, 0, 0, 0, 0},
		"records of -5 bytes":     {0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xfb},
		"records of 2^31-1 bytes": {0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff},
	}
	for what, body := range claims {
		if n, err := CheckProduce(body, 8); err == nil {
			t.Errorf("%s pass, and would take %d bytes", what, n)
		}
	}
	many := append([]byte{0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1}, make([]byte, 6<<16+6)...) // 65,537 topics without a name
	if _, err := CheckProduce(many, 8); err == nil {
		t.Error("more parts than are allowed pass")
	}
}

// Tagged fields that nobody knows are passed over (KIP-482), in the header as in the body.
func TestUnknownTagsAreSkipped(t *testing.T) {
	t.Parallel()
	tags := []byte{2, 5, 3, 'a', 'b', 'c', 0x90, 1, 0}
	head := append([]byte{0, 0, 0, 9, 0, 0, 0, 42, 0, 2, 'm', 'e'}, tags...)
	h, err := ParseHeaderStart(head)
	if err != nil {
		t.Fatal(err)
	}
	body, err := h.ParseHeaderRest(append(head, "body"...), true, "")
	if err != nil || string(body) != "body" || h.ClientID != "me" || h.Correlation != 42 || h.Version != 9 {
		t.Errorf("%+v, body %q, %v", h, body, err)
	}
	req := exampleProduce(9)
	req.UnknownTags.Set(77, []byte("unknown"))
	req.Topics[0].UnknownTags.Set(78, []byte("unknown"))
	req.Topics[0].Partitions[0].UnknownTags.Set(79, nil)
	if _, err := CheckProduce(req.AppendTo(nil), 9); err != nil {
		t.Error(err)
	}
}

// No header makes the parser panic, and what it returns is a part of what it got.
func FuzzHeader(f *testing.F) {
	f.Add([]byte{0, 18, 0, 3, 0, 0, 0, 1, 0, 2, 'm', 'e', 0}, true)
	f.Add([]byte{0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff}, false)
	f.Add([]byte{0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 1, 5, 200, 1}, true)
	f.Fuzz(func(t *testing.T, b []byte, flexible bool) {
		h, err := ParseHeaderStart(b)
		if err != nil {
			return
		}
		body, err := h.ParseHeaderRest(b, flexible, "me")
		if err == nil && !bytes.HasSuffix(b, body) {
			t.Errorf("body % x of % x", body, b)
		}
	})
}

// What passes the check and is a request to kmsg too (which refuses a null for a name) has the parts that were counted.
func FuzzProduceCheck(f *testing.F) {
	for version := int16(0); version <= 13; version++ {
		f.Add(exampleProduce(version).AppendTo(nil), uint8(version))
	}
	f.Fuzz(func(t *testing.T, body []byte, v uint8) {
		version := int16(v % 14)
		arrays, err := CheckProduce(body, version)
		if err != nil {
			return
		}
		req := kmsg.NewPtrProduceRequest()
		req.SetVersion(version)
		if req.ReadFrom(body) != nil {
			return
		}
		parts := len(req.Topics)
		for i := range req.Topics {
			parts += len(req.Topics[i].Partitions)
		}
		if int64(parts*producePartBytes) != arrays {
			t.Errorf("%d parts, accounted are %d bytes", parts, arrays)
		}
	})
}
