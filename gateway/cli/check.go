package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"polylog/logstore"
)

func checkCommand() Command {
	return Command{
		Name:    "check",
		Summary: "verify the log in a directory, and repair it",
		Usage: `polylog check [flags] DIR

Reads the whole log in the directory DIR and verifies all that is known of it: checksums, every record, the order of entries and files,
indexes, checkpoints, and that each message that is not deleted is there once. It prints what the log holds and what is wrong with it, file
by file, and changes nothing. No process may have the log open.

The exit status is 0 if the log is undamaged, also when a crash cut off its end, which was never confirmed then; 1 if it is damaged or could
not be checked; 2 if the command was misused.

With -repair a damaged log is made usable again: what is damaged is dropped, the rest stays, and what is lost is printed. Copy the
directory first if there is room: what is dropped is gone.`,
		Run: runCheck,
	}
}

func runCheck(ctx context.Context, env Env, args []string) int {
	fs := env.Flags()
	repair := fs.Bool("repair", false, "drop what is damaged, and say what that was")
	asJSON := fs.Bool("json", false, "print the result as JSON")
	if code, ok := env.Parse(fs, args); !ok {
		return code
	}
	if fs.NArg() != 1 {
		return env.Misused("name one directory, got %d", fs.NArg())
	}
	c := &logCheck{env: env, dir: fs.Arg(0)}
	err := c.run(ctx, *repair)
	if *asJSON {
		if c.found != nil {
			err = errors.Join(err, c.writeJSON())
		}
	} else {
		err = errors.Join(err, c.writeText(*repair))
	}
	switch {
	case err != nil:
		return env.Failed(err)
	case c.last().OK():
		return ExitOK
	}
	return ExitFailed
}

// logCheck is one run of the command.
type logCheck struct {
	env   Env
	dir   string
	found *logstore.Report
	// Of a repair; nil if there was none.
	repaired *logstore.Recovery
	after    *logstore.Report
}

// last is the report of the log as it is now.
func (c *logCheck) last() *logstore.Report {
	if c.after != nil {
		return c.after
	}
	return c.found
}

// run checks, and if it is asked to and must, repairs and checks again.
func (c *logCheck) run(ctx context.Context, repair bool) (err error) {
	if c.found, err = c.check(ctx); err != nil || c.found.OK() || !repair {
		return err
	}
	s, err := logstore.Open(logstore.Options{Dir: c.dir, Repair: true})
	if err != nil {
		return fmt.Errorf("repairing: %w", err)
	}
	recovery := s.Recovery
	c.repaired = &recovery
	if err := s.Close(); err != nil {
		return fmt.Errorf("closing the log after the repair: %w", err)
	}
	c.after, err = c.check(ctx)
	return err
}

func (c *logCheck) check(ctx context.Context) (*logstore.Report, error) {
	p := c.env.progress("checking " + c.dir)
	defer p.end()
	return logstore.Check(ctx, nil, c.dir, p.show)
}

// writeJSON prints the report; after a repair, both reports and what was done between them.
func (c *logCheck) writeJSON() error {
	e := json.NewEncoder(c.env.Stdout)
	e.SetIndent("", "  ")
	if c.repaired == nil {
		return e.Encode(c.found)
	}
	type dropped struct {
		File string `json:"file"`
		From int64  `json:"from"`
		To   int64  `json:"to"`
		What string `json:"what"`
	}
	type lost struct {
		Shard logstore.Shard `json:"shard"`
		From  int64          `json:"from"`
		To    int64          `json:"to"`
	}
	out := struct {
		Found          *logstore.Report `json:"found"`
		Dropped        []dropped        `json:"dropped"`
		Lost           []lost           `json:"lost"`
		RebuiltIndexes []string         `json:"rebuilt_indexes"`
		BadCheckpoints []string         `json:"bad_checkpoints"`
		After          *logstore.Report `json:"after"`
	}{
		Found: c.found, After: c.after, Dropped: []dropped{}, Lost: []lost{},
		RebuiltIndexes: append([]string{}, c.repaired.RebuiltIndexes...), BadCheckpoints: append([]string{}, c.repaired.BadCheckpoints...),
	}
	for _, d := range c.repaired.Damage {
		out.Dropped = append(out.Dropped, dropped(d))
	}
	for _, l := range c.repaired.Lost {
		out.Lost = append(out.Lost, lost{l.Shard, l.From, l.To})
	}
	return e.Encode(out)
}
