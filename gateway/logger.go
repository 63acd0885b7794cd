package gateway

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"polylog/gateway/config"
)

// NewLogger makes the log of a process, which goes to w. A writer that fails is nobody's to hear of: the log is where one would say it.
func NewLogger(c config.Log, w io.Writer) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(c.Level)
	if err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	var enc zapcore.Encoder
	if c.Format == "console" || c.Format == "auto" && isTerminal(w) {
		e := zap.NewDevelopmentEncoderConfig()
		e.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02 15:04:05.000")
		e.EncodeLevel = zapcore.CapitalLevelEncoder
		enc = zapcore.NewConsoleEncoder(e)
	} else {
		e := zap.NewProductionEncoderConfig()
		e.TimeKey, e.EncodeTime = "time", zapcore.RFC3339NanoTimeEncoder
		enc = zapcore.NewJSONEncoder(e)
	}
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(w)), level)), nil
}

// isTerminal reports whether somebody watches: then lines are for eyes, else for programs.
func isTerminal(w io.Writer) bool {
	f, is := w.(*os.File)
	if !is {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// printer is how the floors below, which know nothing of zap, say something: as lines of a part of the log. What a client does over and over must not fill the disk with
// lines about it, so a part has a number of lines a second; how many were left out is said.
func printer(log *zap.Logger, part string) func(format string, args ...any) {
	p := &throttle{log: log.Named(part), now: time.Now}
	return p.print
}

// linesMax is how many lines a second a part of the log has.
const linesMax = 50

type throttle struct {
	log *zap.Logger
	now func() time.Time

	mu      sync.Mutex
	second  int64
	printed int
	left    int64 // out, and not said yet
}

func (t *throttle) print(format string, args ...any) {
	second := t.now().Unix()
	t.mu.Lock()
	if second != t.second {
		t.second, t.printed = second, 0
	}
	t.printed++
	over, left := t.printed > linesMax, t.left
	if over {
		t.left++
	} else {
		t.left = 0
	}
	t.mu.Unlock()
	if over {
		return
	}
	if left > 0 {
		t.log.Warn("lines were left out: there were too many in a second", zap.Int64("lines", left))
	}
	t.log.Info(fmt.Sprintf(format, args...))
}
