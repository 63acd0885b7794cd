package kafka

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"polylog/logstore/vfs"
	"polylog/viewlayer/topic"
)

// member is a group member on a connection of its own, that says what a test tells it to.
type groupMember struct {
	*rawConn
	versions func(key int16) int16
	group    string
	id       string
	instance *string
	gen      int32
	leads    []string // ids of the members, if it leads
	protocol string
	metadata string
}

func newMember(t *testing.T, addr, group string, versions func(key int16) int16) *groupMember {
	return &groupMember{rawConn: dialRaw(t, addr), versions: versions, group: group, gen: -1, protocol: "range", metadata: "m"}
}

// version makes req one of the version to be tried.
func (m *groupMember) version(req kmsg.Request) kmsg.Request {
	req.SetVersion(m.versions(req.Key()))
	return req
}

func (m *groupMember) joinRequest() *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = m.group, m.id, m.instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 10_000
	for name := range strings.SplitSeq(m.protocol, ",") {
		if name == "" {
			continue
		}
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, []byte(m.metadata)
		req.Protocols = append(req.Protocols, p)
	}
	m.version(req)
	return req
}

// joined takes the answer to a join; false: it is told to ask again with the id that it now has.
func (m *groupMember) joined(req kmsg.Request, corr int32) *kmsg.JoinGroupResponse {
	resp := m.receive(req, corr).(*kmsg.JoinGroupResponse)
	if resp.ErrorCode == 0 || resp.ErrorCode == codeMemberIDRequired {
		m.id = resp.MemberID
	}
	if resp.ErrorCode == 0 {
		m.gen, m.leads = resp.Generation, nil
		if resp.LeaderID == resp.MemberID {
			for _, o := range resp.Members {
				m.leads = append(m.leads, o.MemberID)
			}
		}
	}
	return resp
}

// join asks to join, a second time if that needs an id, and does not wait for the group.
func (m *groupMember) join() (wait func() *kmsg.JoinGroupResponse) {
	req := m.joinRequest()
	corr := m.send(req)
	if m.id == "" && m.instance == nil && req.Version >= 4 {
		if resp := m.joined(req, corr); resp.ErrorCode != codeMemberIDRequired {
			m.t.Fatalf("a new member's first join: %+v", resp)
		}
		req = m.joinRequest()
		corr = m.send(req)
	}
	return func() *kmsg.JoinGroupResponse { return m.joined(req, corr) }
}

// sync asks for the assignment; a leader brings those of all.
func (m *groupMember) sync() (wait func() *kmsg.SyncGroupResponse) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = m.group, m.id, m.instance, m.gen
	kind, protocol := "consumer", strings.Split(m.protocol, ",")[0]
	req.ProtocolType, req.Protocol = &kind, &protocol
	for _, id := range m.leads {
		work := "what a follower does"
		if id == m.id {
			work = "what the leader does"
		}
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(work)})
	}
	m.version(req)
	corr := m.send(req)
	return func() *kmsg.SyncGroupResponse { return m.receive(req, corr).(*kmsg.SyncGroupResponse) }
}

func (m *groupMember) heartbeat() int16 {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = m.group, m.id, m.instance, m.gen
	return m.ask(m.version(req)).(*kmsg.HeartbeatResponse).ErrorCode
}

// untilTold sends heartbeats until the answer is not that all is well: what another connection asked for may take its time.
func (m *groupMember) untilTold() (code int16) {
	await(m.t, "a heartbeat that says something", func() bool {
		code = m.heartbeat()
		return code != codeNone
	})
	return code
}

// commit moves the bookmark of the topic's partition 0, and of one that does not exist.
func (m *groupMember) commit(t kmsg.MetadataResponseTopic, offset int64, metadata string) (there, notThere int16) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = m.group, m.id, m.instance, m.gen
	for _, p := range []int32{0, 77} {
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, offset, 0, &metadata
		req.Topics = append(req.Topics, kmsg.OffsetCommitRequestTopic{Topic: *t.Topic, TopicID: t.TopicID, Partitions: []kmsg.OffsetCommitRequestTopicPartition{rp}})
	}
	resp := m.ask(m.version(req)).(*kmsg.OffsetCommitResponse)
	return resp.Topics[0].Partitions[0].ErrorCode, resp.Topics[1].Partitions[0].ErrorCode
}

// fetched is the group's bookmark in partition 0 of the topic; all asks for all topics.
func (m *groupMember) fetched(t kmsg.MetadataResponseTopic, all bool) string {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = m.group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = m.group
	if !all {
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: *t.Topic, Partitions: []int32{0}}}
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: *t.Topic, TopicID: t.TopicID, Partitions: []int32{0}}}
	}
	req.Groups = []kmsg.OffsetFetchRequestGroup{g}
	resp := m.ask(m.version(req)).(*kmsg.OffsetFetchResponse)
	if req.Version < 8 {
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Topic != *t.Topic {
			return fmt.Sprintf("%+v", resp)
		}
		p := resp.Topics[0].Partitions[0]
		return fmt.Sprintf("%d %q error %d", p.Offset, *p.Metadata, p.ErrorCode)
	}
	if len(resp.Groups) != 1 || len(resp.Groups[0].Topics) != 1 || len(resp.Groups[0].Topics[0].Partitions) != 1 {
		return fmt.Sprintf("%+v", resp)
	}
	p := resp.Groups[0].Topics[0].Partitions[0]
	return fmt.Sprintf("%d %q error %d", p.Offset, *p.Metadata, p.ErrorCode)
}

func (m *groupMember) leave() int16 {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = m.group, m.id
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: m.id, InstanceID: m.instance}}
	m.version(req)
	resp := m.ask(req).(*kmsg.LeaveGroupResponse)
	if req.Version >= 3 && resp.ErrorCode == 0 {
		return resp.Members[0].ErrorCode
	}
	return resp.ErrorCode
}

// describe returns the state of the group and what its members have, in order.
func (m *groupMember) describe() string {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{m.group}
	g := m.ask(m.version(req)).(*kmsg.DescribeGroupsResponse).Groups[0]
	s := fmt.Sprintf("error %d %s %s %s", g.ErrorCode, g.State, g.ProtocolType, g.Protocol)
	var work []string
	for _, o := range g.Members {
		work = append(work, fmt.Sprintf("%q of %s", o.MemberAssignment, o.ClientID))
	}
	slices.Sort(work)
	return strings.Join(append([]string{s}, work...), ", ")
}

func (m *groupMember) list() string {
	req := kmsg.NewPtrListGroupsRequest()
	m.version(req)
	for _, g := range m.ask(req).(*kmsg.ListGroupsResponse).Groups {
		if g.Group == m.group {
			return g.ProtocolType + " " + g.GroupState + " " + strings.ToLower(g.GroupType)
		}
	}
	return "not there"
}

func (m *groupMember) delete() int16 {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{m.group}
	return m.ask(m.version(req)).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode
}

// topicNamed asks for a topic's metadata.
func (m *groupMember) topicNamed(name string) kmsg.MetadataResponseTopic {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	return m.ask(req).(*kmsg.MetadataResponse).Topics[0]
}

// lives lets a group of two live its life, and returns what both are told. Requests have the version round, or the nearest that is in both of the ranges.
func lives(t *testing.T, addr, group string, versions func(key int16) int16) (told []string) {
	scene := ""
	say := func(format string, args ...any) { told = append(told, scene+": "+fmt.Sprintf(format, args...)) }
	a, b := newMember(t, addr, group, versions), newMember(t, addr, group, versions)
	jobs := a.topicNamed("jobs")
	joined := func(m *groupMember, r *kmsg.JoinGroupResponse) {
		leads := "follows"
		if r.LeaderID == r.MemberID && r.ErrorCode == 0 {
			leads = "leads"
		}
		protocol := ""
		if r.Protocol != nil {
			protocol = *r.Protocol
		}
		say("joined: error %d, generation %d, %q, %s %d", r.ErrorCode, r.Generation, protocol, leads, len(r.Members))
	}
	synced := func(r *kmsg.SyncGroupResponse) { say("synced: error %d, %q", r.ErrorCode, r.MemberAssignment) }
	committed := func(there, notThere int16) { say("committed: errors %d %d", there, notThere) }

	// Nobody is there.
	scene = "a member of a group that does not exist"
	a.id, a.gen = "ghost", 3
	say("heartbeat %d", a.heartbeat())
	say("leave %d", a.leave())
	scene = "nobody is there"
	committed(a.commit(jobs, 1, ""))
	joined(a, a.joined(a.joinRequest(), a.send(a.joinRequest())))
	a.id, a.gen = "", -1
	say("%s", a.describe())
	say("%s", a.list())
	say("delete %d", a.delete())
	scene = "a group that does not exist"
	say("%s", a.fetched(jobs, false))

	// A simple consumer.
	scene = "a simple consumer"
	committed(a.commit(jobs, 5, "five"))
	say("%s", a.fetched(jobs, false))
	if versions(9) >= 2 {
		say("%s", a.fetched(jobs, true))
	}
	say("%s", a.list())
	say("%s", a.describe())

	// One member, then two.
	scene = "one member, then two"
	joined(a, a.join()())
	say("%s", a.describe())
	committed(a.commit(jobs, 6, ""))
	synced(a.sync()())
	say("heartbeat %d", a.heartbeat())
	committed(a.commit(jobs, 7, "seven"))
	say("%s", a.describe())
	waitB := b.join()
	say("heartbeat %d", a.untilTold())
	committed(a.commit(jobs, 8, ""))
	waitA := a.join()
	joined(a, waitA())
	joined(b, waitB())
	say("heartbeat %d", b.heartbeat())
	syncB := b.sync()
	synced(a.sync()())
	synced(syncB())
	say("%s", a.describe())
	say("%s", a.list())

	// What members must not do.
	scene = "what members must not do"
	old := a.gen
	a.gen = old - 1
	say("heartbeat %d", a.heartbeat())
	committed(a.commit(jobs, 9, ""))
	synced(a.sync()())
	a.gen = old
	scene = "metadata over the limit"
	committed(a.commit(jobs, 9, strings.Repeat("x", 4097)))
	scene = "what members must not do"
	committed(a.commit(jobs, 9, "nine"))
	stranger := newMember(t, addr, group, versions)
	committed(stranger.commit(jobs, 9, ""))
	stranger.protocol = "other"
	joined(stranger, stranger.joined(stranger.joinRequest(), stranger.send(stranger.joinRequest())))
	say("delete %d", stranger.delete())

	scene = "they join again"
	// A follower that joins with the same words is told the same; with others it makes all join.
	joined(b, b.join()())
	b.metadata = "new"
	waitB = b.join()
	say("heartbeat %d", a.untilTold())
	joined(a, a.join()())
	joined(b, waitB())
	syncB = b.sync()
	synced(a.sync()())
	synced(syncB())

	// They leave, the leader first.
	scene = "they leave"
	say("leave %d", a.leave())
	say("leave %d", a.leave())
	say("heartbeat %d", b.untilTold())
	joined(b, b.join()())
	synced(b.sync()())
	say("leave %d", b.leave())
	say("%s", b.describe())
	say("%s", b.list())
	say("%s", b.fetched(jobs, false))
	say("delete %d", b.delete())
	say("%s", b.list())
	scene = "a group that does not exist"
	say("%s", b.fetched(jobs, false))
	return told
}

// staticLives lets static members come, come back, be fenced and be taken out.
func staticLives(t *testing.T, addr, group string, versions func(key int16) int16) (told []string) {
	scene := "static members"
	say := func(format string, args ...any) { told = append(told, scene+": "+fmt.Sprintf(format, args...)) }
	member := func(instance string) *groupMember {
		m := newMember(t, addr, group, versions)
		m.instance = &instance
		return m
	}
	a, b := member("a"), member("b")
	joined := func(name string, m *groupMember, r *kmsg.JoinGroupResponse) {
		say("%s joined: error %d, generation %d, leads %v of %d, skips %v", name, r.ErrorCode, r.Generation, r.ErrorCode == 0 && r.LeaderID == r.MemberID, len(r.Members), r.SkipAssignment)
	}
	synced := func(name string, r *kmsg.SyncGroupResponse) {
		say("%s synced: error %d, %q", name, r.ErrorCode, r.MemberAssignment)
	}
	joined("a", a, a.join()())
	waitB := b.join()
	say("heartbeat %d", a.untilTold())
	joined("a", a, a.join()())
	joined("b", b, waitB())
	syncB := b.sync()
	synced("a", a.sync()())
	synced("b", syncB())

	again := member("b") // the follower comes back
	joined("b", again, again.join()())
	synced("b", again.sync()())
	say("fenced: heartbeat %d", b.heartbeat()) // a leave is taken by the oracle, and takes the new one out
	joined("b", b, b.join()())
	synced("b", b.sync()())
	say("heartbeats %d %d", a.heartbeat(), again.heartbeat())
	b = again

	leader := member("a") // the leader comes back
	if versions(11) < 9 {
		scene = "an older leader comes back"
	}
	joined("a", leader, leader.join()())
	scene = "static members"
	leader.leads = nil
	synced("a", leader.sync()())
	say("fenced: heartbeat %d", a.heartbeat())
	say("heartbeats %d %d", leader.heartbeat(), b.heartbeat())

	tool := newMember(t, addr, group, versions)
	name := "b"
	tool.instance = &name
	say("leave %d %d", tool.leave(), tool.leave())
	say("heartbeat %d", leader.untilTold())
	say("heartbeat %d", b.heartbeat())
	joined("a", leader, leader.join()())
	return told
}

// upTo gives requests the version v, or the nearest in the range that this broker serves.
func upTo(v int16) func(key int16) int16 {
	return func(key int16) int16 {
		for _, a := range groupAPIs() {
			if a.key == key {
				return max(a.minVersion, min(a.maxVersion, v))
			}
		}
		panic(fmt.Sprintf("no request has the key %d", key))
	}
}

// A group's life in every version of its requests.
func TestGroupLivesInEveryVersion(t *testing.T) {
	t.Parallel()
	b := startGroups(t, vfs.NewMem(), nil)
	b.topic("jobs", func(s *topic.Spec) { s.Partitions = 2 })
	for v := range int16(11) {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			t.Parallel()
			told := lives(t, b.addr, fmt.Sprint("group", v), upTo(v))
			t.Log(strings.Join(told, "\n"))
		})
	}
}

// explained are the scenes in which the oracle answers otherwise than Kafka.
var explained = map[string]string{
	"a member of a group that does not exist": "Kafka answers UNKNOWN_MEMBER_ID, so that the client joins anew; the oracle GROUP_ID_NOT_FOUND",
	"a group that does not exist":             "Kafka answers offset -1 without an error; the oracle GROUP_ID_NOT_FOUND",
	"metadata over the limit":                 "the oracle has no limit",
	"an older leader comes back":              "Kafka hides from a client that does not know KIP-814 that it leads, lest it assigns what nobody hears of; the oracle does not",
}

// The same life at franz-go's fake broker.
func TestGroupLivesAsAtTheOracle(t *testing.T) {
	t.Parallel()
	oracle, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "jobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(oracle.Close)
	b := startGroups(t, vfs.NewMem(), nil)
	b.topic("jobs", func(s *topic.Spec) { s.Partitions = 2 })
	for v := int16(1); v < 11; v++ { // in v0 the oracle takes the rebalance timeout, which is not in the request, for none, and drops members at once
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprint("group", v)
			want, got := lives(t, oracle.ListenAddrs()[0], name, upTo(v)), lives(t, b.addr, name, upTo(v))
			if v >= 5 {
				want = append(want, staticLives(t, oracle.ListenAddrs()[0], name+" static", upTo(v))...)
				got = append(got, staticLives(t, b.addr, name+" static", upTo(v))...)
			}
			for i := range max(len(want), len(got)) {
				w, g := at(want, i), at(got, i)
				scene, _, _ := strings.Cut(g, ":")
				if _, known := explained[scene]; !known && w != g {
					t.Errorf("%d: the oracle is told %q, and here it is %q", i, w, g)
				}
			}
		})
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}
