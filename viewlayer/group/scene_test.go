package group

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"polylog/logstore"
	"polylog/logstore/vfs"
	"polylog/viewlayer/topic"
)

var update = flag.Bool("update", false, "write what happened into the scenes of testdata, to be read before it is kept")

// stage is a coordinator on a store in memory, with a clock that a scene moves.
type stage struct {
	t       testing.TB
	fs      vfs.FS
	store   *logstore.Store
	c       *Coordinator
	opts    Options
	now     time.Time
	ids     int
	ticks   int
	topics  map[topic.ID]string
	lost    map[topic.ID]bool // topics that were deleted
	members map[string]string // actor -> member id
	gens    map[string]int32
	said    []string // what happened since the last command
}

func newStage(t testing.TB, opts Options) *stage {
	s := &stage{t: t, fs: vfs.NewMem(), opts: opts, now: time.Unix(1_000_000, 0), topics: map[topic.ID]string{}, lost: map[topic.ID]bool{},
		members: map[string]string{}, gens: map[string]int32{}}
	s.open()
	t.Cleanup(func() {
		s.c.Close()
		s.store.Close()
	})
	return s
}

func (s *stage) open() {
	var err error
	if s.store, err = logstore.Open(logstore.Options{Dir: "log", FS: s.fs, SegmentBytes: 1 << 20}); err != nil {
		s.t.Fatal(err)
	}
	o := s.opts
	o.Store = s.store
	o.Now = func() time.Time { return s.now }
	o.NewID = func() string { s.ids++; return strconv.Itoa(s.ids) }
	o.TopicExists = func(id topic.ID) bool { return !s.lost[id] }
	if s.c, err = Open(o); err != nil {
		s.t.Fatal(err)
	}
	s.ids-- // the coordinator's own mark
}

func (s *stage) restart() {
	s.c.Close()
	if err := s.store.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.open()
}

func (s *stage) say(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

// errorName is the error's type and what of it matters.
func errorName(err error) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", err), "*group.")
	switch e := err.(type) {
	case *MemberIDRequiredError:
		name += " " + e.MemberID
	case *IllegalGenerationError:
		name += fmt.Sprintf(" %d, it is %d", e.Got, e.Want)
	}
	return name
}

func (s *stage) topicID(name string) topic.ID {
	var id topic.ID
	copy(id[:], name)
	s.topics[id] = name
	return id
}

// pass lets the time go by, tick after tick.
func (s *stage) pass(d time.Duration) {
	end := s.now.Add(d)
	for {
		next := s.c.Tick(s.now)
		if next.IsZero() || next.After(end) {
			break
		}
		if s.ticks++; s.ticks > 100_000 {
			s.t.Fatalf("at %v there is always something to do at once", s.now)
		}
		s.now = next
	}
	s.now = end
}

// words are the arguments of a command: key=value or single words.
type words map[string]string

func (w words) or(key, otherwise string) string {
	if v, ok := w[key]; ok {
		return v
	}
	return otherwise
}

func (w words) duration(t testing.TB, key string, otherwise time.Duration) time.Duration {
	v, ok := w[key]
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const scenesGroup = "g"

func (s *stage) member(actor string, w words) string { return w.or("member", s.members[actor]) }

func (s *stage) generation(actor string, w words) int32 {
	if v, ok := w["gen"]; ok {
		n, err := strconv.Atoi(v)
		if err != nil {
			s.t.Fatal(err)
		}
		return int32(n)
	}
	if n, ok := s.gens[actor]; ok {
		return n
	}
	return -1
}

// consumerMetadata is what a consumer of the topics says of itself.
func consumerMetadata(topics ...string) []byte {
	b := []byte{0, 1, 0, 0, 0, byte(len(topics))}
	for _, t := range topics {
		b = append(append(b, 0, byte(len(t))), t...)
	}
	return b
}

func (s *stage) join(actor string, w words) {
	r := &JoinRequest{Namespace: "/", Group: w.or("group", scenesGroup), MemberID: s.member(actor, w), InstanceID: w["instance"], ClientID: actor, Host: "/10.0.0.1",
		Session: w.duration(s.t, "session", 10*time.Second), Rebalance: w.duration(s.t, "rebalance", time.Minute), ProtocolType: w.or("type", "consumer")}
	_, r.RequireID = w["ask"]
	_, r.KnowsSkip = w["skip"]
	for _, p := range strings.Split(w.or("protocols", "range"), ",") {
		if p != "" {
			r.Protocols = append(r.Protocols, Protocol{p, consumerMetadata(strings.Split(w.or("topics", "t"), ",")...)})
		}
	}
	s.c.Join(r, func(res JoinResult, err error) {
		if err != nil {
			if e, ok := err.(*MemberIDRequiredError); ok {
				s.members[actor] = e.MemberID
			}
			s.say("%s join: %s", actor, errorName(err))
			return
		}
		s.members[actor], s.gens[actor] = res.MemberID, res.Generation
		line := fmt.Sprintf("%s joined as %s: generation %d, %s, leader %s", actor, res.MemberID, res.Generation, res.Protocol, res.Leader)
		if res.Members != nil {
			line += " of"
			for _, m := range res.Members {
				line += " " + m.ID
				if m.InstanceID != "" {
					line += "(" + m.InstanceID + ")"
				}
			}
		}
		if res.SkipAssignment {
			line += ", assignment stays"
		}
		s.say("%s", line)
	})
}

func (s *stage) sync(actor string, w words) {
	r := &SyncRequest{Namespace: "/", Group: w.or("group", scenesGroup), MemberID: s.member(actor, w), InstanceID: w["instance"], Generation: s.generation(actor, w),
		ProtocolType: w["type"], Protocol: w["protocol"]}
	for _, a := range strings.Split(w["assign"], ",") {
		if to, what, ok := strings.Cut(a, ":"); ok {
			if id, known := s.members[to]; known {
				to = id
			}
			r.Assignments = append(r.Assignments, Assignment{to, []byte(what)})
		}
	}
	s.c.Sync(r, func(res SyncResult, err error) {
		if err != nil {
			s.say("%s sync: %s", actor, errorName(err))
			return
		}
		s.say("%s works on '%s'", actor, res.Assignment)
	})
}

// partition reads "topic/partition".
func (s *stage) partition(text string) TopicPartition {
	name, n, _ := strings.Cut(text, "/")
	i, err := strconv.Atoi(n)
	if err != nil {
		s.t.Fatalf("%q is no topic/partition", text)
	}
	return TopicPartition{s.topicID(name), int32(i)}
}

func (s *stage) commit(actor string, w words, rest []string) {
	r := &CommitRequest{Namespace: "/", Group: w.or("group", scenesGroup), Generation: -1, Retention: w.duration(s.t, "retention", -1), InstanceID: w["instance"]}
	if actor != "tool" {
		r.MemberID, r.Generation = s.member(actor, w), s.generation(actor, w)
	}
	for _, p := range rest {
		where, offset, ok := strings.Cut(p, "@")
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(offset, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		b := Bookmark{TopicPartition: s.partition(where), Offset: n, LeaderEpoch: -1, Metadata: w["note"]}
		if size, err := strconv.Atoi(w["notesize"]); err == nil {
			b.Metadata = strings.Repeat("x", size)
		}
		r.Bookmarks = append(r.Bookmarks, b)
	}
	refused, err := s.c.Commit(context.Background(), r)
	if err != nil {
		s.say("%s commit: %s", actor, errorName(err))
		return
	}
	for i := range refused {
		if refused[i] != nil {
			s.say("%s commit of bookmark %d: %s", actor, i, errorName(refused[i]))
		}
	}
}

func (s *stage) fetch(w words) {
	all, err := s.c.FetchAll("/", w.or("group", scenesGroup))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, b := range all {
		line := fmt.Sprintf("%s/%d at %d", s.topics[b.Topic], b.Partition, b.Offset)
		if b.Metadata != "" {
			line += " '" + b.Metadata[:min(len(b.Metadata), 20)] + "'"
		}
		s.say("%s", line)
	}
}

func (s *stage) describe(w words) {
	d, err := s.c.Describe("/", w.or("group", scenesGroup))
	if err != nil {
		s.t.Fatal(err)
	}
	s.say("%s %s %s", d.State, cmp.Or(d.ProtocolType, "-"), cmp.Or(d.Protocol, "-"))
	for _, m := range d.Members {
		s.say("%s %s client %s works on '%s'", m.ID, cmp.Or(m.InstanceID, "-"), m.ClientID, m.Assignment)
	}
}

// play does one command of a scene. A scene has these: join, sync, heartbeat, leave, commit, fetch, describe, list, delete, remove, topic-gone, pass, sweep, figures, restart,
// rival, new.
func (s *stage) play(line string) {
	fields := strings.Fields(line)
	w := words{}
	for _, f := range fields[1:] {
		k, v, _ := strings.Cut(f, "=")
		w[k] = v
	}
	actor := ""
	if len(fields) > 1 {
		actor = fields[1]
	}
	report := func(err error) {
		if err != nil {
			s.say("%s: %s", fields[0], errorName(err))
		}
	}
	switch fields[0] {
	case "join":
		s.join(actor, w)
	case "sync":
		s.sync(actor, w)
	case "heartbeat":
		report(s.c.Heartbeat("/", w.or("group", scenesGroup), s.member(actor, w), w["instance"], s.generation(actor, w)))
	case "leave": // of one, or of several: leave A B instance=c
		var who []Leaver
		for _, f := range fields[1:] {
			if i, ok := strings.CutPrefix(f, "instance="); ok {
				who = append(who, Leaver{InstanceID: i})
			} else {
				who = append(who, Leaver{MemberID: s.members[f]})
				delete(s.members, f)
			}
		}
		errs, err := s.c.Leave("/", scenesGroup, who)
		report(err)
		for _, err := range errs {
			report(err)
		}
	case "commit":
		s.commit(actor, w, fields[2:])
	case "fetch":
		s.fetch(w)
	case "describe":
		s.describe(w)
	case "list":
		all, err := s.c.List("/")
		if err != nil {
			s.t.Fatal(err)
		}
		for _, l := range all {
			s.say("%s %s %s", l.Group, l.State, cmp.Or(l.ProtocolType, "-"))
		}
	case "delete":
		report(s.c.Delete("/", w.or("group", scenesGroup)))
	case "remove":
		var what []Removal
		for _, f := range fields[1:] {
			p := s.partition(f)
			what = append(what, Removal{p, s.topics[p.Topic]})
		}
		refused, err := s.c.RemoveBookmarks("/", scenesGroup, what)
		report(err)
		for _, err := range refused {
			report(err)
		}
	case "topic-gone":
		s.lost[s.topicID(actor)] = true
	case "pass":
		d, err := time.ParseDuration(actor)
		if err != nil {
			s.t.Fatal(err)
		}
		s.pass(d)
	case "sweep":
		next, err := s.c.Sweep()
		if err != nil {
			s.t.Fatal(err)
		}
		s.say("again in %v", next)
	case "figures":
		s.say("%+v", s.c.Figures())
	case "restart":
		s.restart()
	case "rival": // another coordinator writes the group
		key := groupName{"/", scenesGroup}.headKey()
		raw, _ := s.store.Get(key)
		h, err := decodeHead(key, raw)
		if err != nil {
			s.t.Fatal(err)
		}
		h.writes++
		if _, err := s.store.Commit(context.Background(), logstore.Txn{Do: []logstore.Op{logstore.Put(key, h.encode())}}); err != nil {
			s.t.Fatal(err)
		}
	case "new": // the actor is a new process and has forgotten who it was
		delete(s.members, actor)
		delete(s.gens, actor)
	default:
		s.t.Fatalf("no command %q", fields[0])
	}
}

// A scene is a text: the first line says why; a line that begins with ">" is a command; the indented lines behind it are what happened.
func TestScenes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenes: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := newStage(t, Options{})
			var out bytes.Buffer
			for line := range strings.Lines(string(script)) {
				if strings.HasPrefix(line, "    ") {
					continue // written anew
				}
				out.WriteString(line)
				command, ok := strings.CutPrefix(strings.TrimSpace(line), "> ")
				if !ok {
					continue
				}
				s.play(command)
				for _, said := range s.said {
					fmt.Fprintf(&out, "    %s\n", said)
				}
				s.said = nil
			}
			if *update {
				if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if want, got := strings.Split(string(script), "\n"), strings.Split(out.String(), "\n"); !slices.Equal(want, got) {
				for i := range max(len(want), len(got)) {
					if i >= len(want) || i >= len(got) || want[i] != got[i] {
						t.Fatalf("line %d: the scene says\n%s\nand what happened is\n%s", i+1, at(want, i), at(got, i))
					}
				}
			}
		})
	}
}

func at(lines []string, i int) string {
	return strings.Join(lines[min(i, len(lines)):min(i+4, len(lines))], "\n")
}
