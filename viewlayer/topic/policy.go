package topic

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"polylog/logstore"
)

// Keys of a topic's configuration, with the names that Kafka gives them. Only keys that have an effect exist.
const (
	ConfigCleanupPolicy   = "cleanup.policy"         // delete, compact, or both with a comma; what retention does
	ConfigDeleteRetention = "delete.retention.ms"    // how long compaction keeps the last record of a key when its value is null
	ConfigMaxMessageBytes = "max.message.bytes"      // the largest batch that a producer may append
	ConfigRetentionBytes  = "retention.bytes"        // of a partition; -1: no limit
	ConfigRetentionMillis = "retention.ms"           // -1: no limit
	ConfigTimestampType   = "message.timestamp.type" // CreateTime or LogAppendTime
	ConfigCompression     = "compression.type"       // producer: as it came
	ConfigMinInSync       = "min.insync.replicas"    // 1: there is one log
)

// Defaults are what holds for a topic of policy Retain that does not say otherwise. A topic of policy Delete has no retention: its messages are deleted by who
// settles them.
type Defaults struct {
	Retention       time.Duration // negative: for ever
	RetentionBytes  int64         // of a partition; negative: no limit
	MaxMessageBytes int64
	DeleteRetention time.Duration
}

// StandardDefaults are Kafka's.
var StandardDefaults = Defaults{Retention: 7 * 24 * time.Hour, RetentionBytes: -1, MaxMessageBytes: 1<<20 + 12, DeleteRetention: 24 * time.Hour}

// configs are the keys and what their values may be.
var configs = map[string]func(value string) (reason string){
	ConfigCleanupPolicy: func(v string) string {
		for _, p := range strings.Split(v, ",") {
			if p != "delete" && p != "compact" {
				return "must be delete, compact, or delete,compact"
			}
		}
		return ""
	},
	ConfigDeleteRetention: wholeNumber(0, math.MaxInt64),
	ConfigMaxMessageBytes: wholeNumber(0, 64<<20),
	ConfigRetentionBytes:  wholeNumber(-1, math.MaxInt64),
	ConfigRetentionMillis: wholeNumber(-1, math.MaxInt64),
	ConfigTimestampType:   oneOf("CreateTime", "LogAppendTime"),
	ConfigCompression:     oneOf("producer"),
	ConfigMinInSync:       wholeNumber(1, 1),
}

func wholeNumber(from, to int64) func(string) string {
	return func(v string) string {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < from || n > to {
			return "must be a whole number from " + strconv.FormatInt(from, 10) + " to " + strconv.FormatInt(to, 10)
		}
		return ""
	}
}

func oneOf(values ...string) func(string) string {
	return func(v string) string {
		if !slices.Contains(values, v) {
			return "must be " + strings.Join(values, " or ")
		}
		return ""
	}
}

// CheckConfig returns a *ConfigError if the configuration has a key that does not exist or a value that the key cannot have.
func CheckConfig(config map[string]string) error {
	for k, v := range config {
		check, ok := configs[k]
		if !ok {
			return &ConfigError{k, v, "there is no such key here"}
		}
		if reason := check(v); reason != "" {
			return &ConfigError{k, v, reason}
		}
	}
	return nil
}

// number returns a checked configuration value, or what holds without one.
func (t *Topic) number(key string, without int64) int64 {
	if v, ok := t.Config[key]; ok {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
	}
	return without
}

// MaxMessageBytes is the largest batch that may be appended to the topic.
func (t *Topic) MaxMessageBytes(d Defaults) int64 {
	return t.number(ConfigMaxMessageBytes, d.MaxMessageBytes)
}

// LogAppendTime tells whether a record's time is that of its arrival, whatever its producer says.
func (t *Topic) LogAppendTime() bool { return t.Config[ConfigTimestampType] == "LogAppendTime" }

func (t *Topic) cleans(how string) bool {
	v, ok := t.Config[ConfigCleanupPolicy]
	return !ok && how == "delete" || slices.Contains(strings.Split(v, ","), how)
}

// retention is what is kept of a topic at a time.
func (t *Topic) retention(d Defaults, now time.Time) logstore.Retention {
	var keep logstore.Retention
	standard := int64(-1)
	if d.Retention >= 0 {
		standard = d.Retention.Milliseconds()
	}
	if ms := t.number(ConfigRetentionMillis, standard); ms >= 0 {
		keep.Before = max(now.UnixMilli()-ms, 1)
	}
	if n := t.number(ConfigRetentionBytes, d.RetentionBytes); n >= 0 {
		keep.MaxBytes = max(n, 1)
	}
	return keep
}

// SweepRetention takes from every topic of policy Retain what its retention and compaction say. It returns at the first error that is not about a topic that
// was deleted meanwhile. Its cost follows the number of topics and the data that goes.
func (c *Catalog) SweepRetention(ctx context.Context, d Defaults) error {
	topics, err := c.All()
	if err != nil {
		return err
	}
	for _, t := range topics {
		if t.AckPolicy != Retain || t.Internal {
			continue
		}
		for _, sh := range t.Shards {
			if err := c.clean(ctx, t, sh, d); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Catalog) clean(ctx context.Context, t *Topic, sh logstore.Shard, d Defaults) error {
	now := c.now()
	var err error
	if keep := t.retention(d, now); t.cleans("delete") && keep != (logstore.Retention{}) {
		_, err = c.store.Retain(ctx, sh, keep)
	}
	if err == nil && t.cleans("compact") {
		before := now.UnixMilli() - t.number(ConfigDeleteRetention, d.DeleteRetention.Milliseconds())
		_, err = c.store.CompactKeys(ctx, sh, logstore.Compaction{TombstonesBefore: before})
	}
	var gone *logstore.UnknownShardError
	if errors.As(err, &gone) {
		return nil
	}
	return err
}
