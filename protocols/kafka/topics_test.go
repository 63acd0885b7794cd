package kafka

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/topic"
)

// metadataRequest asks for topics by name; with none, for none, and with all set, for all.
func metadataRequest(version int16, all bool, names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = version
	if !all {
		req.Topics = []kmsg.MetadataRequestTopic{}
	}
	for _, n := range names {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &n})
	}
	return req
}

// describe puts the topics of an answer in words.
func describe(resp *kmsg.MetadataResponse) []string {
	var out []string
	for _, t := range resp.Topics {
		name := "null"
		if t.Topic != nil {
			name = *t.Topic
		}
		s := fmt.Sprintf("%s %d", name, t.ErrorCode)
		if t.ErrorCode == 0 {
			s += fmt.Sprintf(" x%d", len(t.Partitions))
		}
		if t.IsInternal {
			s += " internal"
		}
		out = append(out, s)
	}
	return out
}

// Null asks for all topics, an empty list for none (all in v0, which knows no null); what is hidden is not listed, names that Kafka forbids are escaped.
func TestMetadataOfAllOrNone(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	b.topic("b", func(s *topic.Spec) { s.Partitions = 2 })
	b.topic("a", nil)
	b.topic("with space", func(s *topic.Spec) { s.AckPolicy = topic.Delete })
	b.topic("amq.gen-1", func(s *topic.Spec) { s.Hidden = true })
	b.topic("__claims", func(s *topic.Spec) { s.Internal = true })
	all := []string{"__claims 0 x1 internal", "a 0 x1", "b 0 x2", "amqp--with-20space 0 x1"}
	r := b.dial()
	for version := int16(0); version <= 13; version++ {
		got := describe(r.ask(metadataRequest(version, true)).(*kmsg.MetadataResponse))
		want := slices.Clone(all)
		if version == 0 {
			want[0] = "__claims 0 x1" // it is not told yet
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("v%d: all are %q, want %q", version, got, want)
		}
		if none := r.ask(metadataRequest(version, false)).(*kmsg.MetadataResponse); (len(none.Topics) > 0) != (version == 0) {
			t.Errorf("v%d: none are %q", version, describe(none))
		}
	}
	hidden := describe(r.ask(metadataRequest(12, false, "amq.gen-1", "amqp--with-20space", "with space")).(*kmsg.MetadataResponse))
	if want := []string{"amq.gen-1 0 x1", "amqp--with-20space 0 x1", "with space 17"}; !slices.Equal(hidden, want) {
		t.Errorf("by name: %q, want %q", hidden, want)
	}
}

// The broker tells the same cluster and controller each time, and the address that is right for the connection.
func TestMetadataOfTheBroker(t *testing.T) {
	t.Parallel()
	b := startBroker(t, func(o *Options) {
		o.NodeID = 7
		o.Advertise = func(net.Conn) (string, int32) { return "behind.nat.example", 19092 }
	})
	for range 3 {
		resp := b.dial().ask(metadataRequest(12, false)).(*kmsg.MetadataResponse)
		if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 7 || resp.Brokers[0].Host != "behind.nat.example" || resp.Brokers[0].Port != 19092 ||
			resp.ControllerID != 7 || *resp.ClusterID != "polylog-test" {
			t.Errorf("%+v", resp)
		}
	}
}

// Topics can be asked for by id, and a topic that is asked for twice is told once.
func TestMetadataByID(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	tp := b.topic("example", nil)
	r := b.dial()
	for version := int16(10); version <= 13; version++ {
		req := metadataRequest(version, false, "example", "example")
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{TopicID: tp.ID}, kmsg.MetadataRequestTopic{TopicID: [16]byte{9}})
		if version >= 12 {
			req.Topics[2].Topic, req.Topics[3].Topic = nil, nil
		}
		resp := r.ask(req).(*kmsg.MetadataResponse)
		got := describe(resp)
		want := []string{"example 0 x1", "example 0 x1", "null 100"}
		if version < 12 {
			want[2] = " 100"
		}
		if !slices.Equal(got, want) || resp.Topics[0].TopicID != tp.ID || resp.Topics[2].TopicID != [16]byte{9} {
			t.Errorf("v%d: %q", version, got)
		}
	}
}

// A topic is made by asking for it only if the request and the broker allow it.
func TestAutoCreation(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{true, false} {
		b := startBroker(t, func(o *Options) { o.AutoCreate, o.Partitions = allowed, 3 })
		r := b.dial()
		for version := int16(0); version <= 13; version++ {
			for _, wanted := range []bool{true, false} {
				name := fmt.Sprintf("topic-%d-%t", version, wanted)
				req := metadataRequest(version, false, name, "", "a/b", ".", "..", strings.Repeat("x", 250))
				req.AllowAutoTopicCreation = wanted
				got := describe(r.ask(req).(*kmsg.MetadataResponse))
				want := name + " 3"
				if allowed && (wanted || version < 4) {
					want = name + " 0 x3"
				}
				if got[0] != want {
					t.Errorf("broker allows %t, v%d asks %t: %q, want %q", allowed, version, wanted, got[0], want)
				}
				for _, g := range got[1:] {
					if !strings.HasSuffix(g, " 17") {
						t.Errorf("an illegal name: %q", g)
					}
				}
			}
		}
	}
}

// What is allowed is told only to who asks (KIP-430).
func TestAuthorizedOperations(t *testing.T) {
	t.Parallel()
	b := startBroker(t, nil)
	b.topic("example", nil)
	req := metadataRequest(8, true)
	const none = -2147483648
	if resp := b.dial().ask(req).(*kmsg.MetadataResponse); resp.AuthorizedOperations != none || resp.Topics[0].AuthorizedOperations != none {
		t.Errorf("%+v", resp)
	}
	req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = true, true
	if resp := b.dial().ask(req).(*kmsg.MetadataResponse); resp.AuthorizedOperations != clusterOperations || resp.Topics[0].AuthorizedOperations != topicOperations {
		t.Errorf("%+v", resp)
	}
}

// createRequest asks for topics to be made.
func createRequest(version int16, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis, req.Topics = version, 10_000, topics
	return req
}

func wished(name string, partitions int32, replicas int16) kmsg.CreateTopicsRequestTopic {
	return kmsg.CreateTopicsRequestTopic{Topic: name, NumPartitions: partitions, ReplicationFactor: replicas}
}

// assignedTo is a topic whose partitions, as listed, are assigned to brokers by hand.
func assignedTo(name string, partitions []int32, brokers ...int32) kmsg.CreateTopicsRequestTopic {
	rt := wished(name, -1, -1)
	for _, p := range partitions {
		rt.ReplicaAssignment = append(rt.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: p, Replicas: brokers})
	}
	return rt
}

func configured(rt kmsg.CreateTopicsRequestTopic, name string, value *string) kmsg.CreateTopicsRequestTopic {
	rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: value})
	return rt
}

// Each wish is judged for itself, the same whether it is only validated or fulfilled, in every version.
func TestCreateTopics(t *testing.T) {
	t.Parallel()
	for version := int16(0); version <= 7; version++ {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, func(o *Options) { o.Partitions = 5 })
			b.topic("there", nil)
			r := b.dial()
			bad := assignedTo("assigned-and-counted", []int32{0}, 1)
			bad.NumPartitions = 1
			cases := []struct {
				rt         kmsg.CreateTopicsRequestTopic
				code       int16
				partitions int32
			}{
				{wished("plain", 3, 1), 0, 3},
				{wished("default", -1, -1), 0, 5},
				{wished("there", 1, 1), codeTopicAlreadyExists, 0},
				{wished("zero", 0, 1), codeInvalidPartitions, 0},
				{wished("minus-two", -2, 1), codeInvalidPartitions, 0},
				{wished("too-many", topic.PartitionsMax+1, 1), codeInvalidPartitions, 0},
				{wished("no-replica", 1, 0), codeInvalidReplicationFactor, 0},
				{wished("two-replicas", 1, 2), codeInvalidReplicationFactor, 0},
				{wished("", 1, 1), codeInvalidTopicException, 0},
				{wished(".", 1, 1), codeInvalidTopicException, 0},
				{wished("..", 1, 1), codeInvalidTopicException, 0},
				{wished("a b", 1, 1), codeInvalidTopicException, 0},
				{wished(strings.Repeat("x", 250), 1, 1), codeInvalidTopicException, 0},
				{wished(strings.Repeat("x", 249), 1, 1), 0, 1},
				{wished("plain_", 1, 1), 0, 1},
				{wished("plain.", 1, 1), 0, 1}, // collides; that is said in the log, and allowed
				{configured(wished("retained", 1, 1), "retention.ms", kmsg.StringPtr("60000")), 0, 1},
				{configured(wished("unknown-config", 1, 1), "no.such.config", kmsg.StringPtr("1")), codeInvalidConfig, 0},
				{configured(wished("bad-config", 1, 1), "retention.ms", kmsg.StringPtr("a while")), codeInvalidConfig, 0},
				{configured(wished("null-config", 1, 1), "retention.ms", nil), codeInvalidConfig, 0},
				{assignedTo("assigned", []int32{1, 0, 2}, 1), 0, 3},
				{assignedTo("assigned-elsewhere", []int32{0}, 2), codeInvalidReplicaAssignment, 0},
				{assignedTo("assigned-twice", []int32{0, 0}, 1), codeInvalidReplicaAssignment, 0},
				{assignedTo("assigned-with-gap", []int32{0, 2}, 1), codeInvalidReplicaAssignment, 0},
				{assignedTo("assigned-to-nobody", []int32{0}), codeInvalidReplicaAssignment, 0},
				{bad, codeInvalidRequest, 0},
				{wished("twice", 1, 1), codeInvalidRequest, 0},
				{wished("twice", 1, 1), codeInvalidRequest, 0},
			}
			req := createRequest(version)
			for _, c := range cases {
				req.Topics = append(req.Topics, c.rt)
			}
			if version >= 1 {
				req.ValidateOnly = true
				checkCreated(t, req, r.ask(req).(*kmsg.CreateTopicsResponse), cases[:len(cases)-1])
				if _, err := b.opts.Topics.Find("/", "plain"); err == nil {
					t.Error("validation made a topic")
				}
				req.ValidateOnly = false
			}
			resp := r.ask(req).(*kmsg.CreateTopicsResponse)
			checkCreated(t, req, resp, cases[:len(cases)-1])
			for i, c := range cases[:len(cases)-1] {
				made, err := b.opts.Topics.Find("/", c.rt.Topic)
				if c.code == 0 && (err != nil || len(made.Shards) != int(c.partitions) || !made.Durable || made.AckPolicy != topic.Retain) {
					t.Errorf("%s: %+v, %v", c.rt.Topic, made, err)
				}
				if c.code == 0 && version >= 7 && resp.Topics[i].TopicID != made.ID {
					t.Errorf("%s: id %x, it has %x", c.rt.Topic, resp.Topics[i].TopicID, made.ID)
				}
				if c.code != 0 && err == nil && c.rt.Topic != "there" {
					t.Errorf("%s was made", c.rt.Topic)
				}
			}
		})
	}
}

func checkCreated(t *testing.T, req *kmsg.CreateTopicsRequest, resp *kmsg.CreateTopicsResponse, cases []struct {
	rt         kmsg.CreateTopicsRequestTopic
	code       int16
	partitions int32
}) {
	t.Helper()
	if len(resp.Topics) != len(cases) {
		t.Fatalf("%d topics, want %d", len(resp.Topics), len(cases))
	}
	for i, c := range cases {
		out := resp.Topics[i]
		if out.Topic != c.rt.Topic || out.ErrorCode != c.code {
			t.Errorf("validate %t: %q has error %d, want %q with %d", req.ValidateOnly, out.Topic, out.ErrorCode, c.rt.Topic, c.code)
		}
		if req.Version >= 1 && (out.ErrorMessage != nil) != (c.code != 0) {
			t.Errorf("%q: error %d with message %v", out.Topic, out.ErrorCode, out.ErrorMessage)
		}
		if req.Version >= 5 && c.code == 0 && (out.NumPartitions != c.partitions || out.ReplicationFactor != 1 || len(out.Configs) != 8) {
			t.Errorf("%q: %+v", out.Topic, out)
		}
	}
}

// Topics are deleted by name and by id, with an error for each that cannot be.
func TestDeleteTopics(t *testing.T) {
	t.Parallel()
	for version := int16(0); version <= 6; version++ {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, nil)
			tp, byID := b.topic("example", nil), b.topic("by-id", nil)
			b.topic("__claims", func(s *topic.Spec) { s.Internal = true })
			b.topic("exclusive", func(s *topic.Spec) { s.Owner, s.Hidden = "somebody", true })
			b.topic("twice", nil)
			r := b.dial()
			r.mustProduce(tp, "a")
			names := []string{"example", "none", "a b", "__claims", "exclusive", "twice", "twice"}
			want := map[string]int16{
				"example": 0, "none": codeUnknownTopicOrPartition, "a b": codeUnknownTopicOrPartition, "__claims": codeTopicAuthorizationFailed,
				"exclusive": codeTopicAuthorizationFailed, "twice": codeInvalidRequest,
			}
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.Version, req.TopicNames = version, names
			if version >= 6 {
				req.TopicNames = nil
				for i := range names {
					req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &names[i]})
				}
				both := "by-id"
				req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{TopicID: byID.ID}, kmsg.DeleteTopicsRequestTopic{TopicID: [16]byte{1}},
					kmsg.DeleteTopicsRequestTopic{Topic: &both, TopicID: byID.ID})
			}
			resp := r.ask(req).(*kmsg.DeleteTopicsResponse)
			for _, out := range resp.Topics[:len(want)] {
				if code, ok := want[*out.Topic]; !ok || out.ErrorCode != code || version >= 5 && (out.ErrorMessage != nil) != (code != 0) {
					t.Errorf("%s: error %d, want %d", *out.Topic, out.ErrorCode, code)
				}
				delete(want, *out.Topic)
			}
			if len(want) > 0 {
				t.Errorf("not answered: %v", want)
			}
			if version >= 6 {
				rest := resp.Topics[len(resp.Topics)-3:]
				if *rest[0].Topic != "by-id" || rest[0].ErrorCode != 0 || rest[1].Topic != nil || rest[1].ErrorCode != codeUnknownTopicID || rest[2].ErrorCode != codeInvalidRequest {
					t.Errorf("%+v", rest)
				}
			}
			if p := r.fetch(tp, 0); p.ErrorCode != codeUnknownTopicOrPartition {
				t.Errorf("the topic can be read: error %d", p.ErrorCode)
			}
			again := b.topic("example", nil)
			if base := r.mustProduce(again, "b"); base != 0 || again.ID == tp.ID {
				t.Errorf("made anew, it goes on at %d", base)
			}
		})
	}
}

// Names that differ by '.' and '_' only are said to the operator.
func TestCollidingNamesAreToldOf(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 100)
	b := startBroker(t, func(o *Options) { o.Logf = func(format string, args ...any) { lines <- fmt.Sprintf(format, args...) } })
	b.topic("a.b", nil)
	b.dial().ask(createRequest(7, wished("a_b", 1, 1)))
	select {
	case l := <-lines:
		if !strings.Contains(l, "a.b") || !strings.Contains(l, "a_b") {
			t.Error(l)
		}
	default:
		t.Error("nothing is said")
	}
}

// Configurations are told with where they come from, and by name if only some are asked for.
func TestDescribeConfigs(t *testing.T) {
	t.Parallel()
	b := startBroker(t, func(o *Options) { o.NodeID = 7 })
	b.topic("example", func(s *topic.Spec) { s.Config = map[string]string{"retention.ms": "60000"} })
	b.topic("queue", func(s *topic.Spec) { s.AckPolicy = topic.Delete })
	b.topic("exclusive", func(s *topic.Spec) { s.Owner = "somebody" })
	r := b.dial()
	ask := func(version int16, kind kmsg.ConfigResourceType, name string, only ...string) kmsg.DescribeConfigsResponseResource {
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.Version, req.IncludeSynonyms, req.IncludeDocumentation = version, true, true
		req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name, ConfigNames: only}}
		return r.ask(req).(*kmsg.DescribeConfigsResponse).Resources[0]
	}
	for version := int16(0); version <= 4; version++ {
		for name, want := range map[string]string{"example": "60000", "queue": "-1"} {
			res := ask(version, resourceTopic, name, "retention.ms")
			if len(res.Configs) != 1 || res.ErrorCode != 0 || *res.Configs[0].Value != want {
				t.Fatalf("v%d: %+v", version, res)
			}
			cf := res.Configs[0]
			if set := name == "example"; version == 0 && cf.IsDefault == set || version >= 1 && ((cf.Source == sourceTopic) != set || len(cf.ConfigSynonyms) == 2 != set) ||
				version >= 3 && (cf.ConfigType != kmsg.ConfigTypeLong || cf.Documentation == nil) {
				t.Errorf("v%d: %+v", version, cf)
			}
		}
		if res := ask(version, resourceTopic, "example"); len(res.Configs) != 8 {
			t.Errorf("v%d: %d configurations", version, len(res.Configs))
		}
		if res := ask(version, resourceBroker, "7", "broker.id"); len(res.Configs) != 1 || *res.Configs[0].Value != "7" {
			t.Errorf("v%d: %+v", version, res)
		}
	}
	for _, c := range []struct {
		kind kmsg.ConfigResourceType
		name string
		code int16
	}{
		{resourceTopic, "none", codeUnknownTopicOrPartition}, {resourceTopic, "a b", codeInvalidTopicException}, {resourceTopic, "exclusive", codeTopicAuthorizationFailed},
		{resourceBroker, "8", codeInvalidRequest}, {resourceBroker, "", 0}, {8, "7", codeInvalidRequest}, {0, "", codeInvalidRequest},
	} {
		if res := ask(4, c.kind, c.name); res.ErrorCode != c.code || len(res.Configs) > 0 {
			t.Errorf("type %d, %q: %+v, want error %d", c.kind, c.name, res, c.code)
		}
	}
}
