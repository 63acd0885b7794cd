package gateway

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockHolder returns the process that has locked the log in a directory, as Linux tells it; 0 if it is not told.
func lockHolder(dir string) int {
	info, err := os.Stat(filepath.Join(dir, "lock"))
	if err != nil {
		return 0
	}
	st, is := info.Sys().(*syscall.Stat_t)
	if !is {
		return 0
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer f.Close()
	// 12: FLOCK  ADVISORY  WRITE 4711 08:01:1835052 0 EOF
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		w := strings.Fields(lines.Text())
		if len(w) < 6 || w[1] != "FLOCK" || w[5] != file {
			continue
		}
		if pid, err := strconv.Atoi(w[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}
