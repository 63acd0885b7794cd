package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// exampleRequest fills a request with what makes its answer as rich as can be.
func exampleRequest(b *broker, key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	if d, ok := req.(interface{ Default() }); ok {
		d.Default()
	}
	req.SetVersion(version)
	t, err := b.opts.Topics.Find("/", "example")
	if err != nil {
		b.t.Fatal(err)
	}
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		p := produceRequest(version, t, 0, -1, batchOf(b.t, nil, "value"))
		p.Topics[0].Partitions = append(p.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{Partition: 7, Records: batchOf(b.t, nil, "value")})
		return p
	case *kmsg.FetchRequest:
		return fetchRequest(version, t, 0)
	case *kmsg.ListOffsetsRequest:
		for ts := int64(-6); ts <= 1; ts++ {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp = int32(ts+6), ts
			rt := kmsg.ListOffsetsRequestTopic{Topic: "example", Partitions: []kmsg.ListOffsetsRequestTopicPartition{rp}}
			r.Topics = append(r.Topics, rt)
		}
	case *kmsg.MetadataRequest:
		r.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("example")}, {Topic: kmsg.StringPtr("made by metadata")}, {Topic: kmsg.StringPtr("none")}}
		r.AllowAutoTopicCreation = true
	case *kmsg.ApiVersionsRequest:
		r.ClientSoftwareName, r.ClientSoftwareVersion = "test", "1.0"
	case *kmsg.CreateTopicsRequest:
		r.Topics = []kmsg.CreateTopicsRequestTopic{{
			Topic: "created", NumPartitions: 3, ReplicationFactor: 1,
			Configs: []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: kmsg.StringPtr("1000")}},
		}, {Topic: "example", NumPartitions: 1, ReplicationFactor: 1}}
	case *kmsg.DeleteTopicsRequest:
		r.TopicNames = []string{"created", "none"}
		r.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: kmsg.StringPtr("created")}, {TopicID: [16]byte{1}}}
	case *kmsg.OffsetForLeaderEpochRequest:
		rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "example", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{rp}}}
	}
	return req
}

// Every version of every request that ApiVersions names is answered in its format, twice on one connection, so that nothing was left unread or unsaid.
func TestEveryAdvertisedVersionIsServed(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	ex := b.topic("example", nil)
	b.dial().mustProduce(ex, "one", "two")
	list := b.dial().ask(exampleRequest(b, 18, 4)).(*kmsg.ApiVersionsResponse)
	if len(list.ApiKeys) < 8 {
		t.Fatalf("%d requests are named", len(list.ApiKeys))
	}
	for _, k := range list.ApiKeys {
		t.Run(kmsg.NameForKey(k.ApiKey), func(t *testing.T) {
			for v := k.MinVersion; v <= k.MaxVersion; v++ {
				r := dialRaw(t, b.addr)
				for range 2 {
					req := exampleRequest(b, k.ApiKey, v)
					resp := r.ask(req)
					checkExample(t, resp, v)
				}
			}
		})
	}
}

// checkExample looks for what an answer must have that is not only well-formed.
func checkExample(t *testing.T, resp kmsg.Response, v int16) {
	t.Helper()
	switch r := resp.(type) {
	case *kmsg.ProduceResponse:
		want := codeNone
		if v < 3 {
			want = codeUnsupportedVersion
		}
		if p := r.Topics[0].Partitions; p[0].ErrorCode != want || v >= 3 && (p[0].BaseOffset < 2 || p[1].ErrorCode != codeUnknownTopicOrPartition) {
			t.Errorf("v%d: %+v", v, p)
		}
	case *kmsg.FetchResponse:
		if p := r.Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) == 0 || p.HighWatermark < 2 {
			t.Errorf("v%d: %+v", v, p)
		}
	case *kmsg.MetadataResponse:
		if len(r.Topics) != 3 || r.Topics[0].ErrorCode != 0 || len(r.Topics[0].Partitions) != 1 || r.Topics[1].ErrorCode != codeInvalidTopicException {
			t.Errorf("v%d: %+v", v, r.Topics)
		}
	case *kmsg.ListOffsetsResponse:
		if r.Topics[4].Partitions[0].ErrorCode != codeUnknownTopicOrPartition {
			t.Errorf("v%d: %+v", v, r.Topics)
		}
	case *kmsg.InitProducerIDResponse:
		if r.ErrorCode != 0 || r.ProducerID < 0 || r.ProducerEpoch != 0 {
			t.Errorf("v%d: %+v", v, r)
		}
	case *kmsg.OffsetForLeaderEpochResponse:
		if p := r.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.EndOffset < 2 {
			t.Errorf("v%d: %+v", v, p)
		}
	}
}

// A client that begins with a version of the future is answered in v0, with the versions that it may use (KIP-511).
func TestUnknownApiVersionsVersionIsAnsweredInV0(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	r := b.dial()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = 4
	frame := r.f.AppendRequest(nil, req, 5)
	frame[7] = 99 // the version
	r.sendBytes(frame)
	v0 := kmsg.NewPtrApiVersionsRequest()
	resp := r.receive(v0, 5).(*kmsg.ApiVersionsResponse)
	if resp.ErrorCode != codeUnsupportedVersion || len(resp.ApiKeys) < 8 {
		t.Errorf("%+v", resp)
	}
	if again := r.ask(v0).(*kmsg.ApiVersionsResponse); again.ErrorCode != 0 {
		t.Errorf("the connection does not go on: %+v", again)
	}
}

// A client's software has a name and a version that can be put into metrics (KIP-511).
func TestSoftwareNames(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	r := b.dial()
	for name, want := range map[string]int16{
		"apache-kafka-java": 0, "a": 0, "a.b-c": 0, "": codeInvalidRequest, "-a": codeInvalidRequest, "a-": codeInvalidRequest, "a b": codeInvalidRequest, "ä": codeInvalidRequest,
	} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, name, "1"
		if resp := r.ask(req).(*kmsg.ApiVersionsResponse); resp.ErrorCode != want || (want == 0) != (len(resp.ApiKeys) > 0) {
			t.Errorf("%q: error %d, want %d", name, resp.ErrorCode, want)
		}
	}
}
