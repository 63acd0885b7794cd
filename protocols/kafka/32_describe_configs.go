package kafka

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/topic"
)

// DescribeConfigs (32): v0 to v4.
//
// v1 tells where a value comes from and what it hides (KIP-226), v3 adds the type and a text (KIP-569), v4 is flexible.

// config is a configuration of a topic or of the broker.
type config struct {
	name, value string
	kind        kmsg.ConfigType
	standard    string // what holds where the topic does not say
	set         bool   // the topic says
	broker      string // the broker's configuration that standard comes from
	about       string
}

// topicConfigs are all configurations that a topic has here.
func (s *Server) topicConfigs(t *topic.Topic) []config {
	d := s.opts.Defaults
	millis, size := d.Retention.Milliseconds(), d.RetentionBytes
	if d.Retention < 0 || t.AckPolicy == topic.Delete {
		millis = -1
	}
	if size < 0 || t.AckPolicy == topic.Delete {
		size = -1
	}
	text := func(n int64) string { return strconv.FormatInt(n, 10) }
	all := []config{
		{name: topic.ConfigCleanupPolicy, kind: kmsg.ConfigTypeList, standard: "delete", broker: "log.cleanup.policy", about: "What retention does: delete old records, keep the last of each key (compact), or both."},
		{name: topic.ConfigCompression, kind: kmsg.ConfigTypeString, standard: "producer", broker: "compression.type", about: "Batches are stored as their producer compressed them."},
		{name: topic.ConfigDeleteRetention, kind: kmsg.ConfigTypeLong, standard: text(d.DeleteRetention.Milliseconds()), broker: "log.cleaner.delete.retention.ms", about: "How long compaction keeps the last record of a key when its value is null."},
		{name: topic.ConfigMaxMessageBytes, kind: kmsg.ConfigTypeInt, standard: text(d.MaxMessageBytes), broker: "message.max.bytes", about: "The largest batch that a producer may append."},
		{name: topic.ConfigTimestampType, kind: kmsg.ConfigTypeString, standard: "CreateTime", broker: "log.message.timestamp.type", about: "Whose time a record has: its producer's, or that of its arrival (LogAppendTime)."},
		{name: topic.ConfigMinInSync, kind: kmsg.ConfigTypeInt, standard: "1", broker: "min.insync.replicas", about: "There is one log."},
		{name: topic.ConfigRetentionBytes, kind: kmsg.ConfigTypeLong, standard: text(size), broker: "log.retention.bytes", about: "How many bytes of a partition are kept; -1: all."},
		{name: topic.ConfigRetentionMillis, kind: kmsg.ConfigTypeLong, standard: text(millis), broker: "log.retention.ms", about: "For how long records are kept; -1: for ever, or until a queue's consumer acknowledges them."},
	}
	for i := range all {
		all[i].value, all[i].set = t.Config[all[i].name]
		if !all[i].set {
			all[i].value = all[i].standard
		}
	}
	return all
}

// brokerConfigs are what clients may want to know of the broker, under the names that Kafka has for it.
func (s *Server) brokerConfigs(brokers int) []config {
	d, l := s.opts.Defaults, s.opts.Limits
	number := func(name string, n int, about string) config {
		return config{name: name, value: strconv.Itoa(n), kind: kmsg.ConfigTypeInt, about: about}
	}
	return []config{
		{name: "auto.create.topics.enable", value: strconv.FormatBool(s.opts.AutoCreate), kind: kmsg.ConfigTypeBoolean, about: "Whether a topic is made when a client asks for one that does not exist."},
		number("broker.id", int(s.opts.NodeID), "The broker's number."),
		number("default.replication.factor", brokers, "Every broker has all of the one log."),
		number("fetch.max.bytes", l.ResponseBytes, "The most bytes of records in the answer to a fetch."),
		number("message.max.bytes", int(d.MaxMessageBytes), "The largest batch, where a topic does not say."),
		number("num.partitions", s.opts.Partitions, "How many partitions a topic gets that is made without saying how many."),
		number("socket.request.max.bytes", l.RequestBytes, "The largest request."),
	}
}

// Where a value comes from.
const (
	sourceTopic   = kmsg.ConfigSource(1) // set for the topic
	sourceBroker  = kmsg.ConfigSource(4) // the broker's own
	sourceDefault = kmsg.ConfigSource(5)
)

// Kinds of resource that have configurations here.
const (
	resourceTopic  = kmsg.ConfigResourceType(2)
	resourceBroker = kmsg.ConfigResourceType(4)
)

// resource is what has configurations.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

// describeConfigs tells the configurations of topics and of the broker.
func (c *call) describeConfigs() {
	req := c.req.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	seen := map[resource]bool{}
	for i := range req.Resources {
		rr := &req.Resources[i]
		key := resource{rr.ResourceType, rr.ResourceName}
		if seen[key] {
			continue // a short request would have a long answer
		}
		seen[key] = true
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = rr.ResourceType, rr.ResourceName
		configs, err := c.configsOf(rr)
		out.ErrorCode, out.ErrorMessage = code(err), errorMessage(err)
		for _, cf := range configs {
			if len(rr.ConfigNames) == 0 || slices.Contains(rr.ConfigNames, cf.name) {
				out.Configs = append(out.Configs, cf.describe(req))
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	c.respond(resp)
}

func (c *call) configsOf(rr *kmsg.DescribeConfigsRequestResource) ([]config, error) {
	switch {
	case rr.ResourceType == resourceTopic:
		t, err := c.conn.find(rr.ResourceName)
		if err != nil {
			return nil, err
		}
		return c.server.topicConfigs(t), nil
	case rr.ResourceType == resourceBroker && rr.ResourceName == "": // what is set for all brokers at run time: nothing can be
		return nil, nil
	case rr.ResourceType == resourceBroker && rr.ResourceName == strconv.Itoa(int(c.server.opts.NodeID)):
		return c.server.brokerConfigs(len(c.server.brokers(c.conn.net))), nil
	case rr.ResourceType == resourceBroker:
		return nil, &wishError{codeInvalidRequest, fmt.Sprintf("this broker is %d, not %q; ask that one", c.server.opts.NodeID, rr.ResourceName)}
	}
	return nil, &wishError{codeInvalidRequest, fmt.Sprintf("resources of type %d have no configurations here; topics (2) and brokers (4) have", rr.ResourceType)}
}

// describe puts a configuration in the words of the answer. Nothing can be changed once a topic is made.
func (cf *config) describe(req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.ReadOnly, out.ConfigType = cf.name, &cf.value, true, cf.kind
	switch {
	case cf.broker == "":
		out.Source = sourceBroker
	case cf.set:
		out.Source = sourceTopic
	default:
		out.Source, out.IsDefault = sourceDefault, true
	}
	if req.IncludeSynonyms && cf.broker != "" {
		if cf.set {
			out.ConfigSynonyms = append(out.ConfigSynonyms, kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{Name: cf.name, Value: &cf.value, Source: sourceTopic})
		}
		out.ConfigSynonyms = append(out.ConfigSynonyms, kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{Name: cf.broker, Value: &cf.standard, Source: sourceDefault})
	}
	if req.IncludeDocumentation {
		out.Documentation = &cf.about
	}
	return out
}
