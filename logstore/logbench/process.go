package logbench

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// procField returns a number from a file of "name: number" lines that the system keeps about this process.
func procField(file, name string) (int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if rest, found := strings.CutPrefix(lines.Text(), name+":"); found {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s of %s: %w", name, file, err)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("%s has no %s: %w", file, name, lines.Err())
}

// readFromDisk returns how many bytes this process has had the disk deliver.
func readFromDisk() int64 {
	n, err := procField("/proc/self/io", "read_bytes")
	if err != nil {
		return 0 // the caller says that nothing was seen to come from the disk
	}
	return n
}

// resident returns the bytes of memory that this process needs, and the most that it ever had.
func resident() (now, peak int64, err error) {
	debug.FreeOSMemory() // collects garbage first
	if now, err = procField("/proc/self/status", "VmRSS"); err != nil {
		return 0, 0, err
	}
	peak, err = procField("/proc/self/status", "VmHWM")
	return now << 10, peak << 10, err
}

// processorTime returns what this process has used of the processors, in itself and in the system.
func processorTime() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
