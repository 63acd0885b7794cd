package bench

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// server is the broker's processes, one for each node, and all below them, if they are on this machine. A nil server is one of which something is not, or cannot be seen: a part
// would look like the whole.
type server struct{ pids []int }

// watchServer finds the processes that listen at some addresses, host:port.
func watchServer(addresses ...string) *server {
	s := &server{}
	for _, a := range addresses {
		pid, err := listenerOf(a)
		if err != nil {
			return nil
		}
		s.pids = append(s.pids, pid)
	}
	return s
}

// processorTime returns what the processes and those below them have used of the processors, in themselves and in the system, to 10 ms.
func (s *server) processorTime() (sum time.Duration) {
	if s == nil {
		return 0
	}
	all := readProcesses("/proc")
	for _, pid := range below(all, s.pids...) {
		sum += all[pid].used
	}
	return sum
}

// spentSince returns the seconds of processor time that were used since it was before, or 0 if nothing is known of the server.
func (s *server) spentSince(before time.Duration) float64 {
	if s == nil {
		return 0
	}
	return (s.processorTime() - before).Seconds()
}

// memory returns the resident memory of the processes and those below them, in bytes, or 0. What several share, such as the program, counts for each.
func (s *server) memory() (sum int64) {
	if s == nil {
		return 0
	}
	all := readProcesses("/proc")
	for _, pid := range below(all, s.pids...) {
		sum += all[pid].resident
	}
	return sum
}

// listenerOf returns the id of the process that listens at an address of this machine.
func listenerOf(address string) (pid int, err error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return 0, err
	}
	port, err := net.LookupPort("tcp", service)
	if err != nil {
		return 0, err
	}
	ips, err := net.LookupIP(host)
	if err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(ips, isOurs) {
		return 0, fmt.Errorf("%s is not on this machine", host)
	}
	inodes := map[string]bool{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(file)
		if err != nil {
			continue // a system without that version of IP
		}
		for _, l := range listenersIn(bufio.NewScanner(f)) {
			if int(l.at.Port()) == port && (l.at.Addr().IsUnspecified() || slices.ContainsFunc(ips, func(ip net.IP) bool { return ip.Equal(l.at.Addr().AsSlice()) })) {
				inodes["socket:["+l.inode+"]"] = true
			}
		}
		f.Close()
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0, err
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && inodes[to] {
			return strconv.Atoi(strings.Split(link, "/")[2])
		}
	}
	return 0, fmt.Errorf("no process that can be seen listens at %s: %w", address, fs.ErrNotExist)
}

// isOurs reports whether an address is one of this machine's.
func isOurs(ip net.IP) bool {
	if ip.IsLoopback() {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addresses, func(a net.Addr) bool {
		n, is := a.(*net.IPNet)
		return is && n.IP.Equal(ip)
	})
}

type listener struct {
	at    netip.AddrPort
	inode string
}

// listenersIn reads the sockets that listen out of a table like /proc/net/tcp: the second field is the address and port in hexadecimal, the fourth the state, the tenth the inode.
func listenersIn(lines *bufio.Scanner) (found []listener) {
	const listening = "0A"
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] != listening {
			continue
		}
		host, service, _ := strings.Cut(f[1], ":")
		raw, err := hex.DecodeString(host)
		port, err2 := strconv.ParseUint(service, 16, 16)
		if err != nil || err2 != nil || len(raw)%4 != 0 {
			continue
		}
		for i := 0; i < len(raw); i += 4 { // words of 32 bits in the order of the processor, which is little-endian wherever this runs
			slices.Reverse(raw[i : i+4])
		}
		if ip, ok := netip.AddrFromSlice(raw); ok {
			found = append(found, listener{netip.AddrPortFrom(ip.Unmap(), uint16(port)), f[9]})
		}
	}
	return found
}

// process is what the system says of a process.
type process struct {
	parent   int
	used     time.Duration // processor time, of children that ended and were waited for too
	resident int64         // bytes
}

// readProcesses reads the processes out of a folder like /proc.
func readProcesses(proc string) map[int]process {
	all := map[int]process{}
	files, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	if err != nil {
		return all
	}
	for _, name := range files {
		line, err := os.ReadFile(name)
		if err != nil {
			continue // it has just ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if p, ok := parseProcess(string(line)); ok && err == nil {
			all[pid] = p
		}
	}
	return all
}

// parseProcess reads a line of /proc/PID/stat (proc(5)). Times are in ticks of 10 ms, on all of Linux's platforms that Go knows.
func parseProcess(line string) (p process, ok bool) {
	const tick = 10 * time.Millisecond
	end := strings.LastIndexByte(line, ')') // the name before it may hold anything
	if end < 0 {
		return p, false
	}
	f := strings.Fields(line[end+1:]) // f[0] is the third field: the state
	if len(f) < 22 {
		return p, false
	}
	var n [6]int64
	for i, field := range []int{1, 11, 12, 13, 14, 21} { // parent, user, system, children's user, children's system, resident pages
		v, err := strconv.ParseInt(f[field], 10, 64)
		if err != nil {
			return p, false
		}
		n[i] = v
	}
	return process{parent: int(n[0]), used: time.Duration(n[1]+n[2]+n[3]+n[4]) * tick, resident: n[5] * int64(os.Getpagesize())}, true
}

// below returns processes and all their descendants that are in the list, each once.
func below(all map[int]process, roots ...int) []int {
	found := slices.Compact(slices.Sorted(slices.Values(roots)))
	for i := 0; i < len(found); i++ {
		for pid, p := range all {
			if p.parent == found[i] && !slices.Contains(found, pid) {
				found = append(found, pid)
			}
		}
	}
	return found
}

// ownProcessorTime returns what this process has used of the processors, in itself and in the system.
func ownProcessorTime() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
