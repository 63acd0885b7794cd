package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"polylog/logstore"
	"polylog/logstore/record"
)

// logDir makes a log of 300 records, keys and deletions in some segments, which was closed, and returns its directory.
func logDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	s, err := logstore.Open(logstore.Options{Dir: dir, SegmentBytes: 64 << 10, Sync: logstore.SyncOS})
	if err != nil {
		t.Fatal(err)
	}
	commit := func(ops ...logstore.Op) logstore.Result {
		t.Helper()
		r, err := s.Commit(t.Context(), logstore.Txn{Do: ops})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := commit(logstore.CreateShard("orders"), logstore.Put("greeting", []byte("hello")))
	b := record.NewBuilder()
	for i := range 300 {
		b.Reset()
		b.Append(int64(i), nil, fmt.Appendf(nil, "%01000d", i), nil)
		batch, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		commit(logstore.AppendBatch(r.Shard(0), batch))
	}
	commit(logstore.Delete(r.Shard(0), logstore.Range{From: 10, To: 20}))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// check runs the command.
func check(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return output(func(env Env) int { return Run(t.Context(), env, append([]string{"check"}, args...)) })
}

// wantLines fails the test unless each of the lines is in the text, whatever the spaces in it.
func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	var got []string
	for l := range strings.Lines(text) {
		got = append(got, strings.Join(strings.Fields(l), " "))
	}
	for _, l := range lines {
		if !slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, l) }) {
			t.Errorf("no line begins with %q in:\n%s", l, text)
		}
	}
}

// damage changes a byte of a segment file and returns the file's name.
func damage(t *testing.T, dir string, segment int, at func(size int) int) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(names) < 4 {
		t.Fatalf("there are the segments %q (%v)", names, err)
	}
	b, err := os.ReadFile(names[segment])
	if err != nil {
		t.Fatal(err)
	}
	b[at(len(b))] ^= 0x04
	if err := os.WriteFile(names[segment], b, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Base(names[segment])
}

func TestCheckOfAGoodLog(t *testing.T) {
	t.Parallel()
	dir := logDir(t)
	code, stdout, stderr := check(t, dir)
	if code != ExitOK || stderr != "" {
		t.Errorf("exit status %d, stderr %q", code, stderr)
	}
	wantLines(t, stdout, dir+": the log is undamaged", "segments ", "entries 302 with 300 batches of 300 records", "live records 290 ", "dead records 10 ",
		"shards 1", "keys 2 27 B", "last entry 302 state hash ", "checkpoint 302 ", `1 290 0 300 "orders"`)
	if strings.Contains(stdout, "damage:") || strings.Contains(stdout, "notes") {
		t.Errorf("it speaks of damage or notes:\n%s", stdout)
	}
	code, stdout, stderr = check(t, "-repair", dir)
	if code != ExitOK || stderr != "" || !strings.Contains(stdout, "There is nothing to repair.") {
		t.Errorf("asked to repair: exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestCheckOfADamagedLogSaysWhatToDoAndRepairWhatIsLost(t *testing.T) {
	t.Parallel()
	dir := logDir(t)
	file := damage(t, dir, 1, func(size int) int { return size / 2 })
	rebuilt := damage(t, dir, 2, func(size int) int { return size - 20 })
	code, stdout, stderr := check(t, dir)
	if code != ExitFailed || stderr != "" {
		t.Errorf("exit status %d, stderr %q", code, stderr)
	}
	wantLines(t, stdout, dir+": the log is DAMAGED, in 3 places", "damage:", file+", position ", file+": missing in it: 1 live record (shard 1, offset ", rebuilt+", position ", "What to do: ")
	if !strings.Contains(stdout, "polylog check -repair "+dir) {
		t.Errorf("it does not say what to do:\n%s", stdout)
	}
	code, stdout, stderr = check(t, "-repair", dir)
	if code != ExitOK || stderr != "" {
		t.Errorf("after the repair: exit status %d, stderr %q", code, stderr)
	}
	wantLines(t, stdout, "The repair", "dropped bytes ", "lost shard 1, offset ", "lost 1 live record in all", "made the index of "+rebuilt+" anew",
		"After the repair:", dir+": the log is undamaged", "live records 289")
	if code, _, _ = check(t, dir); code != ExitOK {
		t.Errorf("the next check ends with exit status %d", code)
	}
}

func TestCheckPrintsJSON(t *testing.T) {
	t.Parallel()
	dir := logDir(t)
	var r logstore.Report
	code, stdout, stderr := check(t, "-json", dir)
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != ExitOK || stderr != "" {
		t.Fatalf("exit status %d, stderr %q, error %v", code, stderr, err)
	}
	if !r.OK() || r.LiveRecords != 290 || r.Hash == 0 || !strings.Contains(stdout, `"problems": []`) {
		t.Errorf("the report is %s", stdout)
	}
	file := damage(t, dir, 1, func(size int) int { return size / 2 })
	code, stdout, _ = check(t, "-json", dir)
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != ExitFailed || r.OK() || r.Problems[0].File != file {
		t.Errorf("exit status %d, error %v, the report is %s", code, err, stdout)
	}
	code, stdout, _ = check(t, "-json", "-repair", dir)
	var repaired struct {
		Found, After logstore.Report
		Dropped      []struct{ File string }
		Lost         []struct{ Shard, From, To int64 }
	}
	if err := json.Unmarshal([]byte(stdout), &repaired); err != nil || code != ExitOK {
		t.Fatalf("exit status %d, error %v", code, err)
	}
	if repaired.Found.OK() || !repaired.After.OK() || len(repaired.Dropped) != 1 || repaired.Dropped[0].File != file || len(repaired.Lost) != 1 || repaired.Lost[0].Shard != 1 {
		t.Errorf("the result is %s", stdout)
	}
}

func TestCheckSaysWhyItCannot(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	missing, empty := filepath.Join(root, "missing"), filepath.Join(root, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	used := logDir(t)
	s, err := logstore.Open(logstore.Options{Dir: used})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{missing}, ExitFailed, "polylog check: there is no directory " + missing},
		{[]string{"-repair", missing}, ExitFailed, "polylog check: there is no directory " + missing},
		{[]string{empty}, ExitFailed, "polylog check: " + empty + " holds no log"},
		{[]string{"-json", empty}, ExitFailed, "polylog check: " + empty + " holds no log"},
		{[]string{used}, ExitFailed, "polylog check: " + used + " is in use"},
		{nil, ExitUsage, "name one directory, got 0"},
		{[]string{used, empty}, ExitUsage, "name one directory, got 2"},
		{[]string{"-mend", used}, ExitUsage, "flag provided but not defined: -mend"},
	} {
		code, stdout, stderr := check(t, c.args...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.stderr) {
			t.Errorf("check %q: exit status %d, stdout %q, stderr %q; want %d, %q", c.args, code, stdout, stderr, c.code, c.stderr)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(missing); !os.IsNotExist(err) {
		t.Errorf("it made the directory (%v)", err)
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
		t.Errorf("it left %v in the empty directory (%v)", left, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, _, stderr := output(func(env Env) int { return Run(ctx, env, []string{"check", used}) })
	if code != ExitFailed || !strings.Contains(stderr, "context canceled") {
		t.Errorf("interrupted: exit status %d, stderr %q", code, stderr)
	}
}

func TestNumbersCanBeRead(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567", -12345: "-12,345", -123: "-123"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) = %q, want %q", n, got, want)
		}
	}
	if got, want := thousands(uint64(1<<64-1)), "18,446,744,073,709,551,615"; got != want {
		t.Errorf("thousands of the largest number = %q, want %q", got, want)
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 102400: "100 KiB", 1<<20 - 1: "1.0 MiB", 5 << 30: "5.0 GiB", 1<<63 - 1: "8.0 EiB"} {
		if got := inBytes(n); got != want {
			t.Errorf("inBytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestProgressIsALineOnATerminalAndSilentElsewhereAtFirst(t *testing.T) {
	t.Parallel()
	var w strings.Builder
	p := Env{Stderr: &w}.progress("reading")
	p.show(1, 10)
	if p.end(); w.String() != "" {
		t.Errorf("at once it says %q", w.String())
	}
	p.next = time.Time{}
	p.show(512, 1024)
	if want := "reading: 512 B of 1.0 KiB (50 %)\n"; w.String() != want {
		t.Errorf("after a while it says %q, want %q", w.String(), want)
	}
	w.Reset()
	p.terminal, p.next = true, time.Time{}
	p.show(0, 0)
	p.end()
	if want := "\r\x1b[Kreading: 0 B of 0 B (100 %)\r\x1b[K"; w.String() != want {
		t.Errorf("on a terminal it says %q, want %q", w.String(), want)
	}
}
