package metrics

import (
	"polylog/cluster"
	"polylog/logstore"
	"polylog/protocols/amqp"
	"polylog/protocols/kafka"
	"polylog/viewlayer/group"
	"polylog/viewlayer/queue"
)

// Kind says how a figure moves.
type Kind string

const (
	Counter Kind = "counter" // only grows, from 0 at the start of the process
	Gauge   Kind = "gauge"   // is what it is now
)

// Snapshot is all figures at one time. Of a front-end that is off there are none.
type Snapshot struct {
	Version   string
	Ready     bool
	Failed    bool // the log takes no more writes
	Listeners []Listener
	Store     logstore.Stats
	Queues    queue.Figures
	Groups    group.Figures
	AMQP      *amqp.Figures
	Kafka     *kafka.Figures
	Cluster   *cluster.Figures
}

// Listener is the figures of an open socket.
type Listener struct {
	Protocol                        string
	Open, Accepted, Refused, Failed int64
}

// Description is what the documents say of a figure.
type Description struct {
	Name, Help string
	Kind       Kind
	Labels     []string
}

// row is one figure: what it is, and where it is read.
type row struct {
	Description
	read func(s *Snapshot, out func(v float64, labels ...string))
}

// Table describes all figures, in the order in which they are documented.
func Table() []Description {
	ds := make([]Description, len(rows))
	for i, r := range rows {
		ds[i] = r.Description
	}
	return ds
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// counter and gauge are rows without labels.
func counter(name, help string, read func(s *Snapshot) int64) row {
	return plain(Counter, name, help, read)
}

func gauge(name, help string, read func(s *Snapshot) int64) row {
	return plain(Gauge, name, help, read)
}

func plain(kind Kind, name, help string, read func(s *Snapshot) int64) row {
	return row{Description{name, help, kind, nil}, func(s *Snapshot, out func(float64, ...string)) { out(float64(read(s))) }}
}

// perListener is a row with a value for each listener.
func perListener(kind Kind, name, help string, read func(l *Listener) int64) row {
	return row{Description{name, help, kind, []string{"protocol"}}, func(s *Snapshot, out func(float64, ...string)) {
		for i := range s.Listeners {
			out(float64(read(&s.Listeners[i])), s.Listeners[i].Protocol)
		}
	}}
}

// ofAMQP is a row that is there while AMQP is served.
func ofAMQP(kind Kind, name, help string, read func(f *amqp.Figures) int64) row {
	return row{Description{name, help, kind, nil}, func(s *Snapshot, out func(float64, ...string)) {
		if s.AMQP != nil {
			out(float64(read(s.AMQP)))
		}
	}}
}

// ofKafka is a row that is there while Kafka is served.
func ofKafka(kind Kind, name, help string, read func(f *kafka.Figures) int64) row {
	return row{Description{name, help, kind, nil}, func(s *Snapshot, out func(float64, ...string)) {
		if s.Kafka != nil {
			out(float64(read(s.Kafka)))
		}
	}}
}

// ofCluster is a row that is there while this node is one of several.
func ofCluster(kind Kind, name, help string, read func(f *cluster.Figures) int64) row {
	return row{Description{name, help, kind, nil}, func(s *Snapshot, out func(float64, ...string)) {
		if s.Cluster != nil {
			out(float64(read(s.Cluster)))
		}
	}}
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// rows is the table.
var rows = []row{
	{Description{"polylog_info", "Always 1; the label says which version runs.", Gauge, []string{"version"}},
		func(s *Snapshot, out func(float64, ...string)) { out(1, s.Version) }},
	{Description{"polylog_ready", "1 while clients are served, as /readyz says.", Gauge, nil},
		func(s *Snapshot, out func(float64, ...string)) { out(flag(s.Ready)) }},
	{Description{"polylog_log_failed", "1 when the log takes no more writes because the disk failed; the process ends then.", Gauge, nil},
		func(s *Snapshot, out func(float64, ...string)) { out(flag(s.Failed)) }},
	{Description{"polylog_log_disk_full", "1 while new messages are refused for want of disk space.", Gauge, nil},
		func(s *Snapshot, out func(float64, ...string)) { out(flag(s.Store.DiskFull)) }},

	perListener(Gauge, "polylog_connections", "Open connections.", func(l *Listener) int64 { return l.Open }),
	perListener(Counter, "polylog_connections_accepted_total", "Connections that were accepted.", func(l *Listener) int64 { return l.Accepted }),
	perListener(Counter, "polylog_connections_refused_total", "Connections that were closed at once because there were as many as may be.", func(l *Listener) int64 { return l.Refused }),
	perListener(Counter, "polylog_accept_errors_total", "Times that the operating system could give no connection, mostly for want of file descriptors.", func(l *Listener) int64 { return l.Failed }),

	counter("polylog_log_entries_total", "Transactions that took effect.", func(s *Snapshot) int64 { return s.Store.Entries }),
	counter("polylog_log_batches_total", "Record batches appended.", func(s *Snapshot) int64 { return s.Store.Batches }),
	counter("polylog_log_written_bytes_total", "Bytes of entries written to the log.", func(s *Snapshot) int64 { return s.Store.LogBytes }),
	counter("polylog_log_writes_total", "Write calls, one for each group of entries.", func(s *Snapshot) int64 { return s.Store.Writes }),
	counter("polylog_log_syncs_total", "fdatasync calls. polylog_log_entries_total divided by it is how many entries share one.", func(s *Snapshot) int64 { return s.Store.Syncs }),
	counter("polylog_log_checkpoints_total", "Checkpoints written.", func(s *Snapshot) int64 { return s.Store.Checkpoints }),
	gauge("polylog_log_checkpoint_bytes", "Size of the last checkpoint.", func(s *Snapshot) int64 { return s.Store.CheckpointBytes }),
	gauge("polylog_log_seq", "Number of the last entry of the order.", func(s *Snapshot) int64 { return int64(s.Store.Seq) }),
	gauge("polylog_log_durable_seq", "Number of the last entry that is known to be on the disk.", func(s *Snapshot) int64 { return int64(s.Store.DurableSeq) }),
	gauge("polylog_log_shards", "Partitions and queues.", func(s *Snapshot) int64 { return int64(s.Store.Shards) }),
	gauge("polylog_log_keys", "Keys of the log's map: topics, cursors, claims, bookmarks.", func(s *Snapshot) int64 { return int64(s.Store.Keys) }),
	gauge("polylog_log_key_bytes", "Bytes of these keys and their values.", func(s *Snapshot) int64 { return s.Store.KeyBytes }),
	gauge("polylog_log_segments", "Segment files.", func(s *Snapshot) int64 { return int64(s.Store.Segments) }),
	gauge("polylog_log_segment_bytes", "Disk space of segment files.", func(s *Snapshot) int64 { return s.Store.SegmentBytes }),
	gauge("polylog_log_spare_bytes", "Disk space of files kept to be written again as segments. They are given back within a minute, or when the disk is nearly full.", func(s *Snapshot) int64 { return s.Store.SpareBytes }),
	gauge("polylog_log_live_bytes", "Bytes in sealed segments that are not deleted, estimated.", func(s *Snapshot) int64 { return s.Store.LiveBytes }),
	gauge("polylog_log_index_bytes", "Memory of the indexes.", func(s *Snapshot) int64 { return int64(s.Store.IndexBytes) }),
	counter("polylog_log_removed_segments_total", "Segments taken out of the log whole because nothing in them was live.", func(s *Snapshot) int64 { return s.Store.RemovedSegments }),
	counter("polylog_log_reused_segments_total", "Segments made of the file of an earlier one.", func(s *Snapshot) int64 { return s.Store.ReusedSegments }),
	counter("polylog_log_rewritten_segments_total", "Segment files copied without what was dead.", func(s *Snapshot) int64 { return s.Store.RewrittenSegments }),
	counter("polylog_log_copied_bytes_total", "Bytes copied by cleaning.", func(s *Snapshot) int64 { return s.Store.CopiedBytes }),
	counter("polylog_log_reclaimed_bytes_total", "Disk space brought back by cleaning.", func(s *Snapshot) int64 { return s.Store.ReclaimedBytes }),
	counter("polylog_log_corrupt_reads_total", "Reads that found the disk not giving back what was written. Any is a reason to look at the disk.", func(s *Snapshot) int64 { return s.Store.CorruptReads }),

	ofCluster(Gauge, "polylog_cluster_live_nodes", "Nodes of the cluster whose epoch goes on.", func(f *cluster.Figures) int64 { return f.Live }),
	ofCluster(Gauge, "polylog_cluster_leader", "1 on the node that does what one node does for all.", func(f *cluster.Figures) int64 { return one(f.Leads) }),
	ofCluster(Gauge, "polylog_cluster_available", "1 while this node takes writes, 0 while it is not in touch with a majority.", func(f *cluster.Figures) int64 { return one(f.Available) }),
	ofCluster(Gauge, "polylog_cluster_last_entry", "The last entry of the order that has come to this node.", func(f *cluster.Figures) int64 { return int64(f.Last) }),
	ofCluster(Gauge, "polylog_cluster_lag_entries", "Entries of the order that this node knows of and has not.", func(f *cluster.Figures) int64 { return int64(f.Behind) }),
	ofCluster(Gauge, "polylog_cluster_lag_proposals", "Transactions that have come from the order and are not applied yet.", func(f *cluster.Figures) int64 { return f.Pending }),
	ofCluster(Gauge, "polylog_cluster_waiting_bytes", "Bytes that this node wants in the order and has not seen there yet.", func(f *cluster.Figures) int64 { return f.Waiting }),
	ofCluster(Gauge, "polylog_cluster_needed_entry", "The first entry of the order that this node may ask for again. The order is trimmed before the lowest of all nodes.", func(f *cluster.Figures) int64 { return int64(f.Need) }),
	ofCluster(Gauge, "polylog_cluster_order_bytes", "Size of the order on each node that has a copy, as the leader last saw it; 0 elsewhere.", func(f *cluster.Figures) int64 { return f.OrderBytes }),
	ofCluster(Counter, "polylog_cluster_resent_total", "Chunks of the order that this node sent more than once.", func(f *cluster.Figures) int64 { return f.Resent }),
	ofCluster(Counter, "polylog_cluster_refused_total", "Chunks of the order that did not count: repeats, disorder, epochs that are over.", func(f *cluster.Figures) int64 { return f.Refused }),

	gauge("polylog_queues", "Queues in use: with consumers, or with messages delivered and not settled.", func(s *Snapshot) int64 { return s.Queues.Queues }),
	gauge("polylog_queue_consumers", "Consumers of queues.", func(s *Snapshot) int64 { return s.Queues.Consumers }),
	gauge("polylog_queue_unsettled_messages", "Messages delivered and not settled.", func(s *Snapshot) int64 { return s.Queues.Out }),
	counter("polylog_queue_taken_total", "Messages handed to consumers.", func(s *Snapshot) int64 { return s.Queues.Taken }),
	counter("polylog_queue_settled_total", "Messages acknowledged, or taken without acknowledgement.", func(s *Snapshot) int64 { return s.Queues.Settled }),
	counter("polylog_queue_returned_total", "Messages that came back to their queue.", func(s *Snapshot) int64 { return s.Queues.Returned }),
	counter("polylog_queue_discarded_total", "Messages rejected without going back to their queue.", func(s *Snapshot) int64 { return s.Queues.Discarded }),
	counter("polylog_queue_over_limit_total", "Messages dropped because they came back more often than their queue's delivery limit.", func(s *Snapshot) int64 { return s.Queues.OverLimit }),
	counter("polylog_queue_timed_out_total", "Messages held longer than their queue's consumer timeout.", func(s *Snapshot) int64 { return s.Queues.TimedOut }),
	gauge("polylog_groups", "Consumer groups with members, or waiting for some.", func(s *Snapshot) int64 { return s.Groups.Groups }),
	counter("polylog_group_generations_total", "Generations of consumer groups that began: rebalances.", func(s *Snapshot) int64 { return s.Groups.Generations }),
	counter("polylog_group_members_lost_total", "Members of groups that were taken for dead, or were too late.", func(s *Snapshot) int64 { return s.Groups.MembersLost }),
	counter("polylog_group_bookmarks_moved_total", "Offsets that groups committed.", func(s *Snapshot) int64 { return s.Groups.BookmarksMoved }),
	counter("polylog_group_bookmarks_forgotten_total", "Committed offsets that were forgotten: of topics that are gone, and of groups that nobody used.",
		func(s *Snapshot) int64 { return s.Groups.BookmarksForgotten }),
	counter("polylog_queue_conflicts_total", "Takes that found the cursor moved by somebody else, and tried again.", func(s *Snapshot) int64 { return s.Queues.Conflicts }),

	ofAMQP(Gauge, "polylog_amqp_channels", "Open channels.", func(f *amqp.Figures) int64 { return f.Channels }),
	ofAMQP(Gauge, "polylog_amqp_consumers", "Consumers.", func(f *amqp.Figures) int64 { return f.Consumers }),
	ofAMQP(Counter, "polylog_amqp_handshakes_failed_total", "Connections that ended before they were open.", func(f *amqp.Figures) int64 { return f.HandshakesFailed }),
	ofAMQP(Counter, "polylog_amqp_logins_refused_total", "Of these, those refused for the user, the password or the vhost.", func(f *amqp.Figures) int64 { return f.LoginsRefused }),
	ofAMQP(Counter, "polylog_amqp_heartbeats_missed_total", "Connections closed because the client was silent.", func(f *amqp.Figures) int64 { return f.HeartbeatsMissed }),
	ofAMQP(Counter, "polylog_amqp_slow_clients_total", "Connections cut off because the client took nothing.", func(f *amqp.Figures) int64 { return f.SlowClients }),
	ofAMQP(Counter, "polylog_amqp_connection_errors_total", "Connections closed with an error.", func(f *amqp.Figures) int64 { return f.ConnectionErrors }),
	ofAMQP(Counter, "polylog_amqp_channel_errors_total", "Channels closed with an error.", func(f *amqp.Figures) int64 { return f.ChannelErrors }),
	ofAMQP(Counter, "polylog_amqp_received_bytes_total", "Bytes read.", func(f *amqp.Figures) int64 { return f.BytesRead }),
	ofAMQP(Counter, "polylog_amqp_sent_bytes_total", "Bytes written.", func(f *amqp.Figures) int64 { return f.BytesWritten }),
	ofAMQP(Counter, "polylog_amqp_published_total", "Messages taken from publishers.", func(f *amqp.Figures) int64 { return f.Published }),
	ofAMQP(Counter, "polylog_amqp_confirmed_total", "Messages confirmed to publishers.", func(f *amqp.Figures) int64 { return f.Confirmed }),
	ofAMQP(Counter, "polylog_amqp_refused_total", "Messages refused to publishers (basic.nack).", func(f *amqp.Figures) int64 { return f.Refused }),
	ofAMQP(Counter, "polylog_amqp_unroutable_total", "Messages that no queue was for.", func(f *amqp.Figures) int64 { return f.Unroutable }),
	ofAMQP(Counter, "polylog_amqp_unroutable_returned_total", "Of these, those sent back (basic.return).", func(f *amqp.Figures) int64 { return f.Returned }),
	ofAMQP(Counter, "polylog_amqp_delivered_total", "Messages sent to consumers.", func(f *amqp.Figures) int64 { return f.Delivered }),
	ofAMQP(Counter, "polylog_amqp_got_total", "Messages sent in answer to basic.get.", func(f *amqp.Figures) int64 { return f.Got }),
	ofAMQP(Counter, "polylog_amqp_got_nothing_total", "basic.get on an empty queue.", func(f *amqp.Figures) int64 { return f.GotNothing }),
	ofAMQP(Counter, "polylog_amqp_acknowledged_total", "Messages acknowledged by consumers.", func(f *amqp.Figures) int64 { return f.Acknowledged }),
	ofAMQP(Counter, "polylog_amqp_requeued_total", "Messages that consumers gave back.", func(f *amqp.Figures) int64 { return f.Requeued }),
	ofAMQP(Counter, "polylog_amqp_rejected_total", "Messages rejected for good.", func(f *amqp.Figures) int64 { return f.Rejected }),
	ofAMQP(Counter, "polylog_amqp_publish_commits_total", "Transactions that published. polylog_amqp_published_total divided by it is how many messages share one.", func(f *amqp.Figures) int64 { return f.PublishCommits }),
	ofAMQP(Counter, "polylog_amqp_settle_commits_total", "Transactions that acknowledged, requeued or rejected.", func(f *amqp.Figures) int64 { return f.SettleCommits }),
	ofAMQP(Counter, "polylog_amqp_publishers_blocked_total", "Times that a connection's publishing had to wait for room on the disk.", func(f *amqp.Figures) int64 { return f.PublishersBlocked }),

	ofKafka(Counter, "polylog_kafka_requests_total", "Requests.", func(f *kafka.Figures) int64 { return f.Requests }),
	ofKafka(Counter, "polylog_kafka_broken_connections_total", "Connections ended because of what their client sent.", func(f *kafka.Figures) int64 { return f.RequestErrors }),
	ofKafka(Counter, "polylog_kafka_received_bytes_total", "Bytes of requests.", func(f *kafka.Figures) int64 { return f.BytesIn }),
	ofKafka(Counter, "polylog_kafka_sent_bytes_total", "Bytes of answers.", func(f *kafka.Figures) int64 { return f.BytesOut }),
	ofKafka(Counter, "polylog_kafka_produced_batches_total", "Batches produced.", func(f *kafka.Figures) int64 { return f.ProducedBatches }),
	ofKafka(Counter, "polylog_kafka_produced_records_total", "Records produced.", func(f *kafka.Figures) int64 { return f.ProducedRecords }),
	ofKafka(Counter, "polylog_kafka_produced_bytes_total", "Bytes of batches produced.", func(f *kafka.Figures) int64 { return f.ProducedBytes }),
	ofKafka(Counter, "polylog_kafka_fetched_bytes_total", "Bytes of batches fetched.", func(f *kafka.Figures) int64 { return f.FetchedBytes }),
	ofKafka(Counter, "polylog_kafka_fetches_waited_total", "Fetches that had to wait for records.", func(f *kafka.Figures) int64 { return f.FetchesWaited }),
	ofKafka(Gauge, "polylog_kafka_fetch_sessions", "Fetch sessions held.", func(f *kafka.Figures) int64 { return f.FetchSessions }),
	ofKafka(Counter, "polylog_kafka_fetch_sessions_evicted_total", "Fetch sessions that had to make room for others.", func(f *kafka.Figures) int64 { return f.FetchEvictions }),
}
