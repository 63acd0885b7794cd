package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	metaBase     = "polylog-base"
	metaIdentity = "polylog-id"
	metaFormat   = "polylog-format"
	// streamFormat is that of the chunks and their numbering. A node that does not know it does not join.
	streamFormat = 1
	// apiTry is how long one request to JetStream may take. One made while there is no leader is never answered.
	apiTry = 500 * time.Millisecond
	// apiSlow is the same for what makes servers move data.
	apiSlow = 5 * time.Second
)

func (o *Options) streamName() string { return "POLYLOG_" + o.Name }
func (o *Options) subject(what string) string {
	return "polylog." + o.Name + "." + what
}

// stream is the order's stream, as this node found it.
type stream struct {
	numbering
	identity string
	s        jetstream.Stream
	js       jetstream.JetStream
	replicas int
}

// errNoStream means that there is a JetStream, and no stream yet.
var errNoStream = errors.New("there is no order yet")

// findStream looks for the stream, once.
func findStream(ctx context.Context, js jetstream.JetStream, o *Options) (*stream, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTry)
	defer cancel()
	s, err := js.Stream(ctx, o.streamName())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, errNoStream
	}
	if err != nil {
		return nil, err
	}
	return readStream(s, js)
}

func readStream(s jetstream.Stream, js jetstream.JetStream) (*stream, error) {
	c := s.CachedInfo().Config
	format, err := strconv.Atoi(c.Metadata[metaFormat])
	if err != nil {
		return nil, fmt.Errorf("the stream %s is not one of this program's (%q is its %s); choose another cluster.name", c.Name, c.Metadata[metaFormat], metaFormat)
	}
	if format != streamFormat {
		return nil, &VersionError{"the stream " + c.Name, format, streamFormat}
	}
	base, err := strconv.ParseUint(c.Metadata[metaBase], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the stream %s: its %s is %q", c.Name, metaBase, c.Metadata[metaBase])
	}
	return &stream{numbering: numbering{base}, identity: c.Metadata[metaIdentity], s: s, js: js, replicas: c.Replicas}, nil
}

// createStream makes the stream. If another node does so at the same time, one of them gets an error.
func createStream(ctx context.Context, js jetstream.JetStream, o *Options, base uint64) (*stream, error) {
	ctx, cancel := context.WithTimeout(ctx, apiSlow)
	defer cancel()
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: o.streamName(), Subjects: []string{o.subject("order")}, Description: "the order of entries of the Polylog cluster " + o.Name,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, MaxBytes: o.StreamBytes, MaxMsgs: -1, MaxConsumers: -1, MaxMsgsPerSubject: -1, MaxMsgSize: payloadMax,
		Storage: jetstream.FileStorage, Replicas: o.Replicas, DenyDelete: true, Duplicates: 100 * time.Millisecond, AllowDirect: false,
		Metadata: map[string]string{metaFormat: strconv.Itoa(streamFormat), metaBase: strconv.FormatUint(base, 10), metaIdentity: randomText(12)},
	})
	if err != nil {
		return nil, err
	}
	return readStream(s, js)
}

// info asks for the stream's bounds and its leader.
func (s *stream) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTry)
	defer cancel()
	return s.s.Info(ctx)
}

// retry calls try until it succeeds or ctx ends. It tells what is waited for, now and then.
func retry(ctx context.Context, o *Options, what string, try func(ctx context.Context) error) error {
	told := time.Now()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		var permanent *permanentError
		if errors.As(err, &permanent) {
			return permanent.err
		}
		if time.Since(told) > tellEvery {
			told = time.Now()
			o.Logf("still %s: %v", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (%w)", what, context.Cause(ctx), err)
		case <-time.After(retryPause):
		}
	}
}

// permanentError ends a retry.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }

const (
	retryPause = 100 * time.Millisecond
	tellEvery  = 5 * time.Second
)
