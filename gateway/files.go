package gateway

import (
	"fmt"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"polylog/gateway/admin"
)

const (
	// filesBeside is how many files and sockets a process has open at the most beside clients' connections and sealed segments: those that the log writes and reads at
	// the moment, listeners, what the runtime needs, and HTTP.
	filesBeside = 64 + admin.ConnectionsMax
	// connectionsLeast is with how few connections a broker still makes sense.
	connectionsLeast = 16
)

// connectionsMax is how many connections there may be, of all protocols. It is what the configuration says, or less if the operating system lets the process open too few files
// for that: clients must never take those that the log needs, since a log that cannot open its next file has failed.
func (g *Gateway) connectionsMax() (int64, error) {
	want := g.plan.most
	var may unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &may); err != nil {
		return want, nil // nobody says that there is a limit
	}
	return connectionsWithin(want, may.Cur, g.plan.store.OpenFiles, g.log)
}

func connectionsWithin(want int64, files uint64, openFiles int, log *zap.Logger) (int64, error) {
	needed := uint64(openFiles) + filesBeside
	if files >= needed+uint64(want) {
		return want, nil
	}
	if files < needed+connectionsLeast {
		return 0, fmt.Errorf("the process may open %d files (ulimit -n) and needs %d with storage.open_files of %d: raise the one or lower the other",
			files, needed+connectionsLeast, openFiles)
	}
	left := int64(files - needed)
	log.Warn("the process may open too few files for limits.connections, so there may be fewer", zap.Uint64("files", files), zap.Uint64("needed", needed+uint64(want)),
		zap.Int64("connections_max", left))
	return left, nil
}
