package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

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
	c := &logCheck{env: env, dir: fs.Arg(0), asJSON: *asJSON}
	err := c.run(ctx, *repair)
	if *asJSON && c.found != nil {
		err = errors.Join(err, c.writeJSON())
	}
	switch {
	case err != nil:
		return env.Failed(err)
	case c.after != nil && c.after.OK() || c.found.OK():
		return ExitOK
	}
	return ExitFailed
}

// logCheck is one run of the command.
type logCheck struct {
	env    Env
	dir    string
	asJSON bool // at the end, instead of text as it comes
	found  *logstore.Report
	// Of a repair; nil if there was none.
	repaired *logstore.Recovery
	after    *logstore.Report
}

// run checks, and if it is asked to and must, repairs and checks again.
func (c *logCheck) run(ctx context.Context, repair bool) (err error) {
	if c.found, err = c.check(ctx); err != nil {
		return err
	}
	if err := c.print(func(w io.Writer) { writeFound(w, c.dir, c.found, repair) }); err != nil {
		return err
	}
	if c.found.OK() || !repair {
		return nil
	}
	// The rate keeps cleaning from beginning anything: what is repaired should be seen as the repair left it.
	s, err := logstore.Open(logstore.Options{Dir: c.dir, Repair: true, CleanRate: 1})
	if err != nil {
		return fmt.Errorf("repairing: %w", err)
	}
	recovery := s.Recovery
	c.repaired = &recovery
	err = c.print(func(w io.Writer) { writeRepair(w, &recovery) })
	if closeErr := s.Close(); closeErr != nil {
		return errors.Join(err, fmt.Errorf("closing the log after the repair: %w", closeErr))
	}
	if err != nil {
		return err
	}
	if c.after, err = c.check(ctx); err != nil {
		return err
	}
	return c.print(func(w io.Writer) { writeAfter(w, c.dir, c.after) })
}

// print writes a part of the result for people.
func (c *logCheck) print(write func(w io.Writer)) error {
	if c.asJSON {
		return nil
	}
	w := bufio.NewWriter(c.env.Stdout)
	write(w)
	return w.Flush()
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
