package kafka

import (
	"errors"
	"fmt"

	"polylog/logstore/record"
	"polylog/viewlayer/topic"
)

// batchError says why the records of a partition are not appended.
type batchError struct {
	code int16
	what string
}

func (e *batchError) Error() string { return e.what }

func batchErrorf(code int16, format string, args ...any) error {
	return &batchError{code, fmt.Sprintf(format, args...)}
}

// zstdSince is the version of Produce that may carry zstd, fetched with the version that zstdReadSince is (KIP-110).
const zstdSince = 7

// checkBatch holds the records of a partition to what a producer may send: exactly one batch of format v2, whole, intact, no larger than the topic takes, a record at
// every offset, and every record readable. Records are walked, and decompressed for that, since what is damaged here would be damage of the log later. The batch is
// stamped with now if the topic has log append time.
func (s *Server) checkBatch(raw []byte, version int16, t *topic.Topic, now int64) (record.Batch, error) {
	var none record.Batch
	if len(raw) == 0 {
		return none, batchErrorf(codeInvalidRecord, "there is no record batch")
	}
	if most := t.MaxMessageBytes(s.opts.Defaults); int64(len(raw)) > most {
		return none, batchErrorf(codeMessageTooLarge, "%d bytes of records; topic '%s' takes batches of at most %d (max.message.bytes)", len(raw), t.Name, most)
	}
	b, rest, err := record.Parse(raw)
	switch {
	case errors.Is(err, record.ErrMagic):
		return none, batchErrorf(codeInvalidRecord, "%v; only record batches of format v2 are taken", err)
	case err != nil:
		return none, err
	case len(rest) > 0:
		return none, batchErrorf(codeInvalidRecord, "%d bytes behind the batch; a partition takes one batch in a request", len(rest))
	case b.Codec() == record.Zstd && version < zstdSince:
		return none, batchErrorf(codeUnsupportedCompressionType, "zstd needs Produce v%d, this is v%d", zstdSince, version)
	case b.BaseOffset() != 0:
		return none, batchErrorf(codeInvalidRecord, "base offset %d; a producer's batch begins at 0", b.BaseOffset())
	case b.Control():
		return none, batchErrorf(codeInvalidRecord, "control batches are the broker's")
	case b.Transactional():
		return none, batchErrorf(codeInvalidTxnState, "transactions are not served")
	case b.LogAppendTime():
		return none, batchErrorf(codeInvalidTimestamp, "log append time is for the broker to set")
	case b.ProducerID() >= 0 && (b.BaseSequence() < 0 || b.ProducerEpoch() < 0):
		return none, batchErrorf(codeInvalidRecord, "producer id %d with epoch %d and sequence %d", b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
	}
	if err := s.checkRecords(b); err != nil {
		return none, err
	}
	if t.LogAppendTime() {
		record.SetLogAppendTime(raw, now)
		if b, _, err = record.ParseTrusted(raw); err != nil {
			return none, err
		}
	}
	return b, nil
}

// usualExpansion is what compressed records are first allowed to expand to, as a multiple. What needs more is decompressed anew with the full limit.
const usualExpansion = 32

// checkRecords walks the records. Memory that decompression takes comes out of the server's allowance, so that a crowd of small requests cannot each have the most.
func (s *Server) checkRecords(b record.Batch) error {
	if b.Codec() == record.None {
		return b.Validate(record.Limits{Dense: true})
	}
	limit := min(usualExpansion*b.Len()+64<<10, record.DefaultDecompressedLimit)
	for {
		n, _ := s.decode.take(int64(limit), nil)
		err := b.Validate(record.Limits{Dense: true, Decompressed: limit})
		s.decode.give(n)
		if !errors.Is(err, record.ErrTooLarge) || limit == record.DefaultDecompressedLimit {
			return err
		}
		limit = record.DefaultDecompressedLimit
	}
}
