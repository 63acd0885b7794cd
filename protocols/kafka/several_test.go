package kafka

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/viewlayer/group"
	"polylog/viewlayer/topic"
)

// All nodes tell the same of who leads what, every node leads as much, and when one goes only its partitions get another leader.
func TestLeadershipIsSpread(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	const n = 600
	tp := c.topic("wide", n)
	ask := func(nd *node) *kmsg.MetadataResponse {
		return nd.dial().ask(metadataRequest(12, false, tp.Name)).(*kmsg.MetadataResponse)
	}
	first := ask(c.nodes[0])
	if len(first.Brokers) != 3 || first.Brokers[2].NodeID != 2 || text(first.Brokers[2].Rack) != "rack 2" || first.ControllerID != 0 {
		t.Fatalf("brokers %+v, controller %d", first.Brokers, first.ControllerID)
	}
	leads := map[int32]int{}
	for i, p := range first.Topics[0].Partitions {
		leads[p.Leader]++
		replicas := slices.Clone(p.Replicas)
		slices.Sort(replicas)
		if p.Replicas[0] != p.Leader || !slices.Equal(replicas, []int32{0, 1, 2}) || !slices.Equal(p.ISR, p.Replicas) || p.LeaderEpoch != 0 {
			t.Fatalf("partition %d: %+v", i, p)
		}
	}
	for id := range int32(3) {
		if leads[id] < n/3-n/10 || leads[id] > n/3+n/10 {
			t.Errorf("node %d leads %d of %d partitions", id, leads[id], n)
		}
	}
	for _, nd := range c.nodes[1:] {
		if got := ask(nd); fmt.Sprint(got.Topics[0].Partitions) != fmt.Sprint(first.Topics[0].Partitions) {
			t.Errorf("node %d tells of other leaders", nd.id)
		}
	}
	c.lose(0)
	after := ask(c.nodes[1])
	if after.ControllerID != 1 || len(after.Brokers) != 2 {
		t.Errorf("brokers %+v, controller %d", after.Brokers, after.ControllerID)
	}
	for i, p := range after.Topics[0].Partitions {
		if was := first.Topics[0].Partitions[i].Leader; was != 0 && p.Leader != was || p.Leader == 0 {
			t.Fatalf("partition %d was led by %d and is by %d", i, was, p.Leader)
		}
	}
}

// A topic may be asked for with as many replicas as there are brokers, and has them all.
func TestReplicasAreAllBrokers(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	r := c.nodes[1].dial()
	for name, want := range map[string]struct {
		topic kmsg.CreateTopicsRequestTopic
		code  int16
	}{
		"three":   {wished("three", 2, 3), 0},
		"one":     {wished("one", 2, 1), 0},
		"four":    {wished("four", 2, 4), codeInvalidReplicationFactor},
		"by hand": {assignedTo("hand", []int32{0, 1}, 2, 0), 0},
		"twice":   {assignedTo("twice", []int32{0}, 2, 2), codeInvalidReplicaAssignment},
		"unknown": {assignedTo("unknown", []int32{0}, 3), codeInvalidReplicaAssignment},
	} {
		got := r.ask(createRequest(7, want.topic)).(*kmsg.CreateTopicsResponse).Topics[0]
		if got.ErrorCode != want.code || want.code == 0 && got.ReplicationFactor != 3 {
			t.Errorf("%s: error %d, %d replicas", name, got.ErrorCode, got.ReplicationFactor)
		}
	}
}

// Every node names the same coordinator of a group, and it alone answers for the group.
func TestOnlyTheCoordinatorAnswersForAGroup(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	tp := c.topic("work", 1)
	is, isNot := c.coordinator("g")
	for _, nd := range c.nodes {
		for _, v := range []int16{0, 3, 6} {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.Version, req.CoordinatorKey, req.CoordinatorKeys = v, "g", []string{"g"}
			resp := nd.dial().ask(req).(*kmsg.FindCoordinatorResponse)
			id, port := resp.NodeID, resp.Port
			if v >= 4 {
				id, port = resp.Coordinators[0].NodeID, resp.Coordinators[0].Port
			}
			if id != is.id || port != c.brokers()[id].Port {
				t.Errorf("node %d, v%d: the coordinator is %d at port %d, want %d", nd.id, v, id, port, is.id)
			}
		}
	}
	for _, nd := range []*node{is, isNot} {
		want := int16(0)
		if nd == isNot {
			want = codeNotCoordinator
		}
		for what, got := range askAllOfGroup(nd.dial(), tp, "g") {
			if (got == codeNotCoordinator) != (want == codeNotCoordinator) {
				t.Errorf("node %d, %s: error %d", nd.id, what, got)
			}
		}
		list := kmsg.NewPtrListGroupsRequest()
		list.Version = 4
		if got := nd.dial().ask(list).(*kmsg.ListGroupsResponse); len(got.Groups) != 1 && nd == is || len(got.Groups) != 0 && nd == isNot {
			t.Errorf("node %d lists %v", nd.id, got.Groups)
		}
	}
}

// commitAt5 moves a bookmark that is nobody's member's.
func commitAt5(r *rawConn, tp *topic.Topic, name string) (code int16) {
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.Generation = 8, name, -1
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: tp.Name, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5, LeaderEpoch: -1}}}}
	return r.ask(commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

// askAllOfGroup asks everything that a coordinator is asked about a group, and returns the error codes.
func askAllOfGroup(r *rawConn, tp *topic.Topic, name string) map[string]int16 {
	codes := map[string]int16{}
	codes["commit"] = commitAt5(r, tp, name)
	for _, v := range []int16{1, 5, 8} {
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Version, fetch.Group = v, name
		fetch.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: tp.Name, Partitions: []int32{0}}}
		fetch.Groups = []kmsg.OffsetFetchRequestGroup{{Group: name, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: tp.Name, Partitions: []int32{0}}}}}
		resp := r.ask(fetch).(*kmsg.OffsetFetchResponse)
		switch {
		case v >= 8:
			codes["fetch v8"] = resp.Groups[0].ErrorCode
		case v >= 2:
			codes["fetch v5"] = resp.ErrorCode
		default:
			codes["fetch v1"] = resp.Topics[0].Partitions[0].ErrorCode
		}
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 5, name, "consumer", 10_000, 10_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{}}}
	codes["join"] = r.ask(join).(*kmsg.JoinGroupResponse).ErrorCode
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.MemberID = 3, name, "nobody"
	codes["sync"] = r.ask(sync).(*kmsg.SyncGroupResponse).ErrorCode
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Version, beat.Group, beat.MemberID = 3, name, "nobody"
	codes["heartbeat"] = r.ask(beat).(*kmsg.HeartbeatResponse).ErrorCode
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group, leave.MemberID = 2, name, "nobody"
	codes["leave"] = r.ask(leave).(*kmsg.LeaveGroupResponse).ErrorCode
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Version, describe.Groups = 5, []string{name}
	codes["describe"] = r.ask(describe).(*kmsg.DescribeGroupsResponse).Groups[0].ErrorCode
	remove := kmsg.NewPtrOffsetDeleteRequest()
	remove.Group = name
	remove.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: tp.Name, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
	codes["remove offsets"] = r.ask(remove).(*kmsg.OffsetDeleteResponse).ErrorCode
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Version, del.Groups = 2, []string{name + " is not"}
	if group.CoordinatorOf([]int32{0, 1, 2}, "/", name+" is not") == group.CoordinatorOf([]int32{0, 1, 2}, "/", name) {
		codes["delete"] = r.ask(del).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode
	}
	return codes
}

// A node that is behind the one that gave out an offset has nothing yet, and does not call it out of range; an offset that nobody gave out is out of range everywhere.
func TestFetchAheadOfANodeWaits(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2)
	tp := c.topic("log", 1)
	ahead, behind := c.nodes[0], c.nodes[1]
	behind.seat.hold()
	ahead.dial().mustProduce(tp, "a", "b")

	if p := ahead.dial().fetch(tp, 2); p.ErrorCode != 0 || p.HighWatermark != 2 {
		t.Fatalf("at the node that has it: %+v", p)
	}
	r := behind.dial()
	for _, wait := range []int32{0, 100} { // while it is behind
		req := fetchRequest(12, tp, 2)
		req.MaxWaitMillis = wait
		p := r.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || len(p.RecordBatches) != 0 || p.HighWatermark < 2 {
			t.Errorf("behind, waiting %d ms: %+v", wait, p)
		}
	}
	req := fetchRequest(12, tp, 2)
	req.MaxWaitMillis = 20_000
	corr := r.send(req)
	behind.seat.letGo()
	ahead.dial().mustProduce(tp, "c")
	p := r.receive(req, corr).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if got := valuesOf(recordsOf(t, p.RecordBatches)); p.ErrorCode != 0 || fmt.Sprint(got) != "[c]" {
		t.Errorf("what came then: error %d, %v", p.ErrorCode, got)
	}
	for _, nd := range c.nodes {
		req := fetchRequest(12, tp, 4)
		req.MaxWaitMillis = 20_000
		start := time.Now()
		if p := nd.dial().ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != codeOffsetOutOfRange {
			t.Errorf("node %d, an offset that nobody gave out: %+v", nd.id, p)
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("node %d took %v to see that", nd.id, d)
		}
	}
}

// Ends that a node tells are never lower than what was acknowledged before it was asked, wherever that was.
func TestEndsAreAsFarAsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2)
	tp := c.topic("log", 1)
	behind := c.nodes[1]
	latest := listRequest(7, tp.Name, timeLatest)
	epoch := kmsg.NewPtrOffsetForLeaderEpochRequest()
	epoch.Version, epoch.ReplicaID = 4, -1
	rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	epoch.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: tp.Name, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{rp}}}
	for n := int64(1); n <= 3; n++ {
		behind.seat.hold()
		c.nodes[0].dial().mustProduce(tp, "x")
		a, b := behind.dial(), behind.dial()
		was := behind.seat.proposed()
		ca, cb := a.send(latest), b.send(epoch)
		eventually(t, "both wait for what is not here yet", func() bool { return behind.seat.proposed() >= was+2 })
		behind.seat.letGo()
		if p := a.receive(latest, ca).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.Offset != n {
			t.Errorf("the end is %d (error %d), want %d", p.Offset, p.ErrorCode, n)
		}
		if p := b.receive(epoch, cb).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.EndOffset != n {
			t.Errorf("the epoch ends at %d (error %d), want %d", p.EndOffset, p.ErrorCode, n)
		}
	}
}

// The offsets that a group's next coordinator tells are those that the last one has acknowledged, however far the next one's store is behind.
func TestOffsetsAreWhatTheLastCoordinatorAcknowledged(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2)
	tp := c.topic("log", 1)
	was, next := c.coordinator("g")
	next.seat.hold()
	if got := commitAt5(was.dial(), tp, "g"); got != 0 {
		t.Fatalf("commit: error %d", got)
	}
	n := next.seat.proposed()
	var losing sync.WaitGroup
	losing.Go(func() { c.lose(was.id) }) // which waits for the next one to catch up
	eventually(t, "the next one has the group", func() bool { return len(c.ids()) == 1 })
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version, fetch.Groups = 8, []kmsg.OffsetFetchRequestGroup{{Group: "g"}}
	r := next.dial()
	corr := r.send(fetch)
	eventually(t, "both catch up", func() bool { return next.seat.proposed() >= n+3 }) // and the last one did when it gave the group up
	next.seat.letGo()
	g := r.receive(fetch, corr).(*kmsg.OffsetFetchResponse).Groups[0]
	if g.ErrorCode != 0 || len(g.Topics) != 1 || g.Topics[0].Partitions[0].Offset != 5 {
		t.Errorf("the next coordinator tells of %+v", g)
	}
	losing.Wait()
}

// A batch whose acknowledgement was lost on one node, and that is sent again to another one which has not heard of it, is stored once; and who goes on there is not
// out of order.
func TestIdempotentProducerChangesNodes(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2)
	tp := c.topic("log", 1)
	a, b := c.nodes[0], c.nodes[1]
	init := kmsg.NewPtrInitProducerIDRequest()
	init.Version = 4
	b.seat.hold() // so b does not even know that the id was given out
	id := a.dial().ask(init).(*kmsg.InitProducerIDResponse).ProducerID
	ask := func(r *rawConn, seq int32, timeout int32, values ...string) (wait func() kmsg.ProduceResponseTopicPartition) {
		req := produceRequest(9, tp, 0, -1, sequenced(t, id, 0, seq, values...))
		req.TimeoutMillis = timeout
		corr := r.send(req)
		return func() kmsg.ProduceResponseTopicPartition {
			return r.receive(req, corr).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		}
	}
	expect := func(what string, p kmsg.ProduceResponseTopicPartition, offset int64) {
		t.Helper()
		if p.ErrorCode != 0 || p.BaseOffset != offset {
			t.Fatalf("%s: error %d, offset %d, want offset %d", what, p.ErrorCode, p.BaseOffset, offset)
		}
	}
	seq, offset := int32(0), int64(0)
	for range 5 {
		// Stored by a, which does not come to say so.
		a.seat.hold()
		b.seat.hold()
		if p := ask(a.dial(), seq, 30, "x", "y")(); p.ErrorCode != codeRequestTimedOut {
			t.Fatalf("without an outcome: %+v", p)
		}
		again := ask(b.dial(), seq, 20_000, "x", "y")
		b.seat.letGo()
		expect("sent again to another node", again(), offset)
		a.seat.letGo()
		expect("sent again to the first", ask(a.dial(), seq, 20_000, "x", "y")(), offset)
		seq, offset = seq+2, offset+2

		// Acknowledged by a; the next one goes to b, which has not seen that.
		b.seat.hold()
		expect("the next", ask(a.dial(), seq, 20_000, "z")(), offset)
		next := ask(b.dial(), seq+1, 20_000, "w")
		b.seat.letGo()
		expect("one that follows it, at the other node", next(), offset+1)
		seq, offset = seq+2, offset+2
	}
	if p := ask(b.dial(), seq+7, 20_000, "gap")(); p.ErrorCode != codeOutOfOrderSequenceNumber {
		t.Errorf("a gap: error %d", p.ErrorCode)
	}
	if got := recordsOf(t, b.dial().fetch(tp, 0).RecordBatches); len(got) != int(offset) {
		t.Errorf("%d records are stored, want %d", len(got), offset)
	}
}

// Without a majority every request has an answer that makes clients try again, soon, and nothing has changed; members are members still when it is back.
func TestWithoutAMajorityClientsAreToldToTryAgain(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	tp := c.topic("log", 1)
	nd, _ := c.coordinator("g")
	m := newMember(t, nd.addr, "g", func(int16) int16 { return 4 })
	wait := m.join()
	if resp := wait(); resp.ErrorCode != 0 {
		t.Fatalf("join: %+v", resp)
	}
	if resp := m.sync()(); resp.ErrorCode != 0 {
		t.Fatalf("sync: %+v", resp)
	}
	nd.seat.cutOff(errNoMajority)
	r := nd.dial()
	for what, got := range askAllOfGroup(r, tp, "g") {
		if got != codeCoordinatorNotAvailable {
			t.Errorf("%s: error %d", what, got)
		}
	}
	if p := r.produce(tp, 0, batchOf(t, nil, "x")); p.ErrorCode != codeNotEnoughReplicas {
		t.Errorf("produce: error %d", p.ErrorCode)
	}
	if p := r.ask(createRequest(7, wished("new", 1, 1))).(*kmsg.CreateTopicsResponse).Topics[0]; p.ErrorCode != codeNotController {
		t.Errorf("create: error %d", p.ErrorCode)
	}
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.Version, del.TopicNames = 4, []string{tp.Name}
	if p := r.ask(del).(*kmsg.DeleteTopicsResponse).Topics[0]; p.ErrorCode != codeNotController {
		t.Errorf("delete: error %d", p.ErrorCode)
	}
	auto := metadataRequest(12, false, "made-by-asking")
	auto.AllowAutoTopicCreation = true
	if p := r.ask(auto).(*kmsg.MetadataResponse).Topics[0]; p.ErrorCode != codeLeaderNotAvailable {
		t.Errorf("metadata: error %d", p.ErrorCode)
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKey = 3, "g"
	if p := r.ask(find).(*kmsg.FindCoordinatorResponse); p.ErrorCode != codeCoordinatorNotAvailable {
		t.Errorf("find coordinator: error %d", p.ErrorCode)
	}
	id := kmsg.NewPtrInitProducerIDRequest()
	id.Version = 4
	if p := r.ask(id).(*kmsg.InitProducerIDResponse); p.ErrorCode != codeCoordinatorLoadInProgress {
		t.Errorf("a producer id: error %d", p.ErrorCode)
	}
	if p := r.ask(listRequest(7, tp.Name, timeLatest)).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; p.ErrorCode != codeNotLeaderOrFollower {
		t.Errorf("list offsets: error %d", p.ErrorCode)
	}
	if p := r.fetch(tp, 0); p.ErrorCode != 0 {
		t.Errorf("what is there can be read: error %d", p.ErrorCode)
	}
	nd.seat.cutOff(nil)
	if resp := m.heartbeat(); resp != 0 {
		t.Errorf("the member's heartbeat when all is well again: error %d", resp)
	}
	if p := r.produce(tp, 0, batchOf(t, nil, "x")); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("produce: error %d at %d", p.ErrorCode, p.BaseOffset)
	}
}
