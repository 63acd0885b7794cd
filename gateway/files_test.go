package gateway

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestClientsNeverTakeTheFilesThatTheLogNeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want  int64
		files uint64
		open  int
		max   int64
		err   string
	}{
		{10_000, 1 << 20, 256, 10_000, ""},
		{10_000, 10_000 + 256 + filesBeside, 256, 10_000, ""},
		{10_000, 10_000 + 256 + filesBeside - 1, 256, 9_999, ""},
		{10_000, 1024, 256, 1024 - 256 - filesBeside, ""},
		{10_000, 256 + filesBeside + connectionsLeast, 256, connectionsLeast, ""},
		{10_000, 256 + filesBeside + connectionsLeast - 1, 256, 0, "with storage.open_files of 256: raise the one or lower the other"},
		{5, 256 + filesBeside + 5, 256, 5, ""},
	} {
		core, logs := observer.New(zapcore.WarnLevel)
		got, err := connectionsWithin(c.want, c.files, c.open, zap.New(core))
		if got != c.max || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("of %d files, for %d connections: %d, %v; want %d, %q", c.files, c.want, got, err, c.max, c.err)
		}
		if warned := logs.Len() == 1; warned != (err == nil && got < c.want) {
			t.Errorf("of %d files, for %d connections: warned %t", c.files, c.want, warned)
		}
	}
}
