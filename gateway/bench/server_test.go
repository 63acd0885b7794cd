package bench

import (
	"bufio"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestListenerIsFoundByItsAddress(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			if at == "[::1]:0" {
				continue // a machine without IPv6
			}
			t.Fatal(err)
		}
		defer l.Close()
		address := l.Addr().String()
		if at == ":0" {
			_, port, _ := net.SplitHostPort(address)
			address = "localhost:" + port
		}
		if pid, err := listenerOf(address); err != nil || pid != os.Getpid() {
			t.Errorf("%s is listened at by %d (%v), want %d", address, pid, err, os.Getpid())
		}
		l.Close()
		if pid, err := listenerOf(address); err == nil {
			t.Errorf("%s is listened at by %d after the end", address, pid)
		}
	}
	for _, address := range []string{"192.0.2.1:5672", "127.0.0.1", "127.0.0.1:nowhere"} {
		if _, err := listenerOf(address); err == nil {
			t.Errorf("a process of this machine listens at %s", address)
		}
	}
}

func TestListenersAreReadInBothVersionsOfIP(t *testing.T) {
	t.Parallel()
	table := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1628 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1628 0100007F:A44E 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 100 0 0 10 0
   2: 00000000000000000000000001000000:1628 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4713 1
   3: 0000000000000000FFFF00000100007F:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4714 1
   4: nonsense
`
	var got []string
	for _, l := range listenersIn(bufio.NewScanner(strings.NewReader(table))) {
		got = append(got, l.at.String()+" "+l.inode)
	}
	if want := []string{"127.0.0.1:5672 4711", "[::1]:5672 4713", "127.0.0.1:80 4714"}; !slices.Equal(got, want) {
		t.Errorf("listeners %q, want %q", got, want)
	}
}

func TestProcessorTimeOfDescendantsCounts(t *testing.T) {
	t.Parallel()
	line := func(parent string) string {
		return "7 (a (strange) name) S " + parent + " 7 7 0 -1 4194560 100 0 0 0 150 50 20 5 20 0 1 0 100 10000000 25 18446744073709551615"
	}
	p, ok := parseProcess(line("3"))
	if want := (process{3, 2250 * time.Millisecond, 25 * int64(os.Getpagesize())}); !ok || p != want {
		t.Errorf("read %+v, %v, want %+v", p, ok, want)
	}
	for _, bad := range []string{"", "7 (name", "7 (name) S 1 2", strings.Replace(line("3"), " 150 ", " x ", 1)} {
		if _, ok := parseProcess(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
	all := map[int]process{1: {}, 2: {parent: 1}, 3: {parent: 2}, 4: {parent: 3}, 5: {parent: 2}, 6: {parent: 1}}
	if got := slices.Sorted(slices.Values(below(all, 2))); !slices.Equal(got, []int{2, 3, 4, 5}) {
		t.Errorf("below 2 are %v", got)
	}
	if got := slices.Sorted(slices.Values(below(all, 3, 5, 6, 5, 4))); !slices.Equal(got, []int{3, 4, 5, 6}) {
		t.Errorf("below several are %v, each should be there once", got)
	}
	spent := (&server{[]int{os.Getpid()}}).processorTime()
	if own := ownProcessorTime(); spent > own+time.Second || (&server{[]int{os.Getpid()}}).memory() < 1<<20 {
		t.Errorf("this process used %v by the one way and %v by the other", spent, own)
	}
	var unknown *server
	if unknown.processorTime() != 0 || unknown.memory() != 0 || unknown.spentSince(0) != 0 {
		t.Error("an unknown server has used something")
	}
}

func TestServerOfSeveralNodesIsKnownAsAWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	var addresses []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	both := watchServer(addresses...)
	if both == nil || len(both.pids) != 2 {
		t.Fatalf("%+v listens at %v", both, addresses)
	}
	one := watchServer(addresses[0])
	if a, b := one.memory(), both.memory(); b > a+a/2 {
		t.Errorf("a process that is two nodes uses %d bytes, once %d", b, a)
	}
	if some := watchServer(addresses[0], "192.0.2.1:1"); some != nil {
		t.Errorf("%+v is a part of the broker only", some)
	}
}
