package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/logstore"
	"polylog/logstore/record"
	"polylog/viewlayer/group"
	"polylog/viewlayer/topic"
)

// Produce (0): v0 to v13.
//
// v0 to v2 carry record formats that are not taken; every partition is answered UNSUPPORTED_VERSION. They are listed because librdkafka compresses only for a broker
// that lists them (KAFKA-18659); Kafka does the same since 4.0.
// v3 brings record batches (KIP-98), v5 the log start offset, v7 zstd (KIP-110), v8 messages to errors (KIP-467), v9 is flexible, v10 names the current leader in
// errors, v12 has implicit transactions, v13 topic ids (KIP-516).

// produced is one partition of a produce request.
type produced struct {
	out   *kmsg.ProduceResponseTopicPartition
	topic *topic.Topic
	shard logstore.Shard
	batch record.Batch
	// duplicate is set when the batch is in the log already.
	duplicate *group.Duplicate
}

// appendBytes bounds the batches of one transaction, so that a request does not become one giant of the order. A larger batch is alone in its transaction.
const appendBytes = 8 << 20

// produce appends the batches that can be appended and answers, when the client wants an answer, once they are durable.
func (c *call) produce() {
	req := c.req.(*kmsg.ProduceRequest)
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	acks := req.Acks
	parts := c.checkProduce(req, resp)
	ctx, cancel := c.produceContext(req)
	seq := c.appendProduced(ctx, parts)
	cancel()
	switch {
	case acks == 0:
		if err := firstError(resp); err != nil {
			c.hangUp(err) // the protocol has no other way to say it
			return
		}
		c.respondNothing()
	case slices.ContainsFunc(parts, func(p produced) bool { return p.duplicate != nil }):
		c.conn.work.Go(func() {
			c.locate(parts) // which waits for what came before to be durable
			c.answerDurable(seq, parts, resp)
		})
	default:
		c.answerDurable(seq, parts, resp)
	}
}

// produceContext ends when the client wants to know, where the order is made by several nodes. On a single one it is a matter of microseconds.
func (c *call) produceContext(req *kmsg.ProduceRequest) (context.Context, context.CancelFunc) {
	if !c.server.isClustered() || req.TimeoutMillis <= 0 {
		return c.conn.ctx, func() {}
	}
	return context.WithTimeout(c.conn.ctx, time.Duration(req.TimeoutMillis)*time.Millisecond)
}

// answerDurable answers when transaction seq is durable; 0 is none.
func (c *call) answerDurable(seq uint64, parts []produced, resp *kmsg.ProduceResponse) {
	if seq == 0 {
		c.respond(resp)
		return
	}
	c.server.durable.await(seq, func(err error) {
		if err != nil {
			for i := range parts {
				parts[i].fail(err)
			}
		}
		c.respond(resp)
	})
}

// fail makes err the partition's answer.
func (p *produced) fail(err error) { failProduced(p.out, err) }

func failProduced(out *kmsg.ProduceResponseTopicPartition, err error) {
	if out.ErrorCode == codeNone {
		out.ErrorCode, out.ErrorMessage = code(err), errorMessage(err)
		out.BaseOffset, out.LogAppendTime, out.LogStartOffset = -1, -1, -1
	}
}

// firstError returns what is wrong with the request when no answer is wanted.
func firstError(resp *kmsg.ProduceResponse) error {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.ErrorCode != codeNone {
				why := ""
				if p.ErrorMessage != nil {
					why = ": " + *p.ErrorMessage
				}
				return fmt.Errorf("a produce without acknowledgement to partition %d of topic '%s' failed with error %d%s",
					p.Partition, resp.Topics[i].Topic, p.ErrorCode, why)
			}
		}
	}
	return nil
}

// checkProduce fills in the answer with what is wrong, and returns the partitions that can be appended to.
func (c *call) checkProduce(req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse) []produced {
	now := c.server.opts.Now().UnixMilli()
	all := 0
	resp.Topics = make([]kmsg.ProduceResponseTopic, len(req.Topics))
	for i := range req.Topics {
		all += len(req.Topics[i].Partitions)
	}
	parts := make([]produced, 0, all)
	var refused error
	switch {
	case c.version < 3:
		refused = batchErrorf(codeUnsupportedVersion, "Produce v%d carries record formats before v2; v3 and later are taken", c.version)
	case req.TransactionID != nil:
		refused = batchErrorf(codeInvalidTxnState, "transactions are not served")
	case req.Acks < -1 || req.Acks > 1:
		refused = batchErrorf(codeInvalidRequiredAcks, "acks %d; -1, 0 and 1 exist", req.Acks)
	}
	for i := range req.Topics {
		rt, out := &req.Topics[i], &resp.Topics[i]
		out.Topic, out.TopicID = rt.Topic, rt.TopicID
		out.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(rt.Partitions))
		var t *topic.Topic
		err := refused
		if err == nil {
			t, err = c.findWritable(rt)
		}
		for j := range rt.Partitions {
			rp, po := &rt.Partitions[j], &out.Partitions[j]
			po.Default()
			po.Partition = rp.Partition
			p := produced{out: po, topic: t}
			perr := err
			if perr == nil {
				p.shard, perr = partition(t, rp.Partition)
			}
			if perr == nil {
				p.batch, perr = c.server.checkBatch(rp.Records, c.version, t, now)
			}
			if perr != nil {
				p.fail(perr)
				continue
			}
			parts = append(parts, p)
		}
	}
	return parts
}

// findWritable returns the topic that a client may append to.
func (c *call) findWritable(rt *kmsg.ProduceRequestTopic) (*topic.Topic, error) {
	var t *topic.Topic
	var err error
	if c.version >= 13 {
		t, err = c.conn.findID(rt.TopicID)
	} else {
		t, err = c.conn.find(rt.Topic)
	}
	if err == nil && t.Internal {
		return nil, &readOnlyError{t.Name}
	}
	return t, err
}

// appendProduced gives the batches their places, in as few transactions as can be, and returns the number of the last one, or 0 if nothing was appended. What
// fails gets its error.
func (c *call) appendProduced(ctx context.Context, parts []produced) (seq uint64) {
	sequenced := map[logstore.Shard]bool{}
	for len(parts) > 0 {
		n, size := 0, 0
		clear(sequenced)
		for n < len(parts) && (n == 0 || size+parts[n].batch.Len() <= appendBytes) {
			if parts[n].batch.ProducerID() >= 0 {
				if sequenced[parts[n].shard] {
					break // its sequence depends on the one before
				}
				sequenced[parts[n].shard] = true
			}
			size += parts[n].batch.Len()
			n++
		}
		seq = max(seq, c.appendTogether(ctx, parts[:n]))
		parts = parts[n:]
	}
	return seq
}

// appendTogether appends in one transaction. If it cannot have effect, for the sake of one of the partitions, they are tried one by one.
func (c *call) appendTogether(ctx context.Context, parts []produced) (seq uint64) {
	for {
		txn := logstore.Txn{Do: make([]logstore.Op, 0, 2*len(parts)), Wait: logstore.Relaxed}
		appends := 0
		for i := range parts {
			if c.addTo(ctx, &txn, &parts[i]) {
				appends++
			}
		}
		if appends == 0 {
			return 0
		}
		res, err := c.server.opts.Store.Commit(ctx, txn)
		switch {
		case err == nil:
			appends = 0
			for i := range parts {
				if parts[i].isOpen() {
					c.placed(&parts[i], res.Base(appends))
					appends++
				}
			}
			return res.Seq
		case isFinal(err) || len(parts) == 1 && !errors.Is(err, logstore.ErrConflict):
			for i := range parts {
				if parts[i].isOpen() {
					parts[i].fail(err)
				}
			}
			return 0
		case len(parts) > 1:
			for i := range parts {
				if parts[i].isOpen() {
					seq = max(seq, c.appendTogether(ctx, parts[i:i+1]))
				}
			}
			return seq
		}
		// The producer's state has changed since it was looked at: look again.
	}
}

// isOpen reports whether nothing has been decided about the partition yet.
func (p *produced) isOpen() bool { return p.out.ErrorCode == codeNone && p.duplicate == nil }

// addTo makes a batch part of the transaction; with a producer id that includes the producer's state (KIP-98). It reports false, and notes why, if the batch is not to
// be appended.
func (c *call) addTo(ctx context.Context, txn *logstore.Txn, p *produced) bool {
	b := p.batch
	if b.ProducerID() >= 0 {
		d, err := c.judge(p)
		if isGap(err) && c.server.isClustered() {
			// What came before may have been stored by another node, and not be known here yet.
			if e := c.server.catchUp(ctx); e != nil {
				err = e
			} else {
				d, err = c.judge(p)
			}
		}
		if err != nil {
			p.fail(err)
			return false
		}
		if d.Duplicate != nil {
			p.duplicate = d.Duplicate
			return false
		}
		txn.If = append(txn.If, d.Conditions...)
		txn.Do = append(txn.Do, d.Ops...)
	}
	txn.Do = append(txn.Do, logstore.AppendBatch(p.shard, b))
	return true
}

// judge decides on a batch by what is known of its producer here.
func (c *call) judge(p *produced) (d group.Decision, err error) {
	b := p.batch
	_, next, err := c.server.opts.Store.Bounds(p.shard)
	if err != nil {
		return d, err
	}
	return c.server.opts.Producers.Begin(group.Batch{
		Shard: p.shard, Since: p.topic.Created, Next: next,
		ProducerID: b.ProducerID(), Epoch: b.ProducerEpoch(), First: b.BaseSequence(), Count: b.LastOffsetDelta() + 1,
	})
}

// isGap reports whether the producer goes on where nothing of the kind is known.
func isGap(err error) bool {
	_, gap := errors.AsType[*group.OutOfOrderSequenceError](err)
	_, unknown := errors.AsType[*group.UnknownProducerError](err)
	return gap || unknown
}

// isFinal reports whether trying the rest of a failed transaction is of no use, or of harm.
func isFinal(err error) bool {
	_, failed := errors.AsType[*logstore.FailedError](err)
	_, unknown := errors.AsType[*logstore.UnknownOutcomeError](err)
	_, unavailable := errors.AsType[*logstore.UnavailableError](err)
	return failed || unknown || unavailable || errors.Is(err, logstore.ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// placed fills in the answer for a batch that has its place.
func (c *call) placed(p *produced, base int64) {
	b := p.batch
	if b.ProducerID() >= 0 {
		c.server.opts.Producers.Appended(p.shard, b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), base)
	}
	c.describe(p, base)
	f := &c.server.figures
	f.producedBatches.Add(1)
	f.producedRecords.Add(int64(b.Count()))
	f.producedBytes.Add(int64(b.Len()))
}

// describe fills in where a batch is.
func (c *call) describe(p *produced, base int64) {
	p.out.BaseOffset = base
	if p.batch.LogAppendTime() {
		p.out.LogAppendTime = p.batch.MaxTimestamp()
	}
	if b, err := c.server.bounds(p.topic, p.shard); err == nil {
		p.out.LogStartOffset = b.start
	}
}

// locate fills in where the originals of duplicates are. It may wait for the disk.
func (c *call) locate(parts []produced) {
	for i := range parts {
		p := &parts[i]
		if p.duplicate == nil {
			continue
		}
		base, err := c.server.opts.Producers.Locate(c.conn.ctx, p.duplicate)
		if err != nil {
			p.fail(err)
			continue
		}
		c.describe(p, base)
		if p.batch.LogAppendTime() {
			p.out.LogAppendTime = -1 // that of the original is not known
		}
	}
}
