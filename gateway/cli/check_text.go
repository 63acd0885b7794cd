package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"polylog/logstore"
)

// writeFound prints what a check found, and what can be done about it.
func writeFound(w io.Writer, dir string, r *logstore.Report, repair bool) {
	writeReport(w, dir, r)
	switch {
	case repair && r.OK():
		fmt.Fprint(w, "\nThere is nothing to repair.\n")
	case !repair && !r.OK():
		fmt.Fprintf(w, "\nWhat to do: restore the directory from a backup, or copy it and run 'polylog check -repair %s', which drops what is\ndamaged, keeps the rest and says what is lost.\n", dir)
	}
}

// writeAfter prints what a check found after a repair.
func writeAfter(w io.Writer, dir string, r *logstore.Report) {
	fmt.Fprint(w, "\nAfter the repair:\n\n")
	writeReport(w, dir, r)
	if !r.OK() {
		fmt.Fprint(w, "\nThe repair could not mend all of it. Restore the directory from a backup, or go on with what is left.\n")
	}
}

func writeReport(w io.Writer, dir string, r *logstore.Report) {
	if r.OK() {
		fmt.Fprintf(w, "%s: the log is undamaged\n\n", dir)
	} else {
		fmt.Fprintf(w, "%s: the log is DAMAGED, in %s\n\n", dir, counted(r.ProblemCount, "place"))
	}
	writeFigures(w, r)
	writeLargest(w, r.Largest)
	if len(r.Notes) > 0 {
		fmt.Fprint(w, "\nnotes, none of them damage:\n")
		for _, n := range r.Notes {
			fmt.Fprintf(w, "  %s\n", n)
		}
	}
	if r.OK() {
		return
	}
	fmt.Fprint(w, "\ndamage:\n")
	for _, p := range r.Problems {
		fmt.Fprintf(w, "  %v\n", p)
	}
	if more := r.ProblemCount - len(r.Problems); more > 0 {
		fmt.Fprintf(w, "  and %s more\n", thousands(more))
	}
}

// writeFigures prints a table of a name, a count, a size and a remark.
func writeFigures(w io.Writer, r *logstore.Report) {
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name, count, size, remark string) {
		line := fmt.Sprintf("%s\t%s\t%s\t", name, count, size)
		if remark != "" {
			line += "  " + remark
		}
		fmt.Fprintln(t, line)
	}
	parts := []string{thousands(r.Sealed) + " sealed"}
	for _, p := range []struct {
		n    int
		what string
	}{{r.Unsealed, "not sealed"}, {r.Unused, "more not used yet"}, {r.Replaced, "more replaced"}} {
		if p.n > 0 {
			parts = append(parts, thousands(p.n)+" "+p.what)
		}
	}
	row("segments", thousands(r.Segments), inBytes(r.SegmentBytes), strings.Join(parts, ", "))
	row("entries", thousands(r.Entries), "", fmt.Sprintf("with %s of %s", counted(r.Batches, "batch"), counted(r.Records, "record")))
	row("live records", thousands(r.LiveRecords), inBytes(r.LiveBytes), "")
	row("dead records", thousands(r.DeadRecords), inBytes(r.DeadBytes), "deleted, and still on the disk")
	row("shards", thousands(r.Shards), "", "")
	row("keys", thousands(r.Keys), inBytes(r.KeyBytes), "")
	row("last entry", thousands(r.LastSeq), "", fmt.Sprintf("state hash %016x", r.Hash))
	for _, c := range r.Checkpoints {
		remark := c.Name
		if !c.Good {
			remark += ", DAMAGED"
		}
		row("checkpoint", thousands(c.Seq), inBytes(c.Bytes), remark)
	}
	t.Flush() //nolint:errcheck // a builder takes everything
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

func writeLargest(w io.Writer, shards []logstore.ShardReport) {
	if len(shards) == 0 {
		return
	}
	fmt.Fprint(w, "\nthe shards with the most live records:\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "shard\tlive\tfirst\tnext\t  key")
	for _, s := range shards {
		key := "-"
		if s.Key != "" {
			key = fmt.Sprintf("%q", s.Key)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t  %s\n", s.Shard, thousands(s.Live), thousands(s.First), thousands(s.Next), key)
	}
	t.Flush() //nolint:errcheck // the writer below keeps the error
}

// writeRepair prints all that a repair did.
func writeRepair(w io.Writer, r *logstore.Recovery) {
	fmt.Fprint(w, "\nThe repair\n")
	for _, b := range r.BadCheckpoints {
		fmt.Fprintf(w, "  removed a checkpoint: %s\n", b)
	}
	for _, name := range r.RebuiltIndexes {
		fmt.Fprintf(w, "  made the index of %s anew\n", name)
	}
	if r.TornFile != "" {
		fmt.Fprintf(w, "  cut off what was never confirmed, behind position %d of %s\n", r.TornAt, r.TornFile)
	}
	for _, d := range r.Damage {
		if d.To == 0 {
			fmt.Fprintf(w, "  went on over a gap before %s: %s\n", d.File, d.What)
		} else {
			fmt.Fprintf(w, "  dropped bytes %d to %d of %s: %s\n", d.From, d.To, d.File, d.What)
		}
	}
	var lost int64
	for _, l := range r.Lost {
		lost += l.To - l.From
		fmt.Fprintf(w, "  lost %v: %s\n", l, counted(l.To-l.From, "record"))
	}
	fmt.Fprintf(w, "  lost %s in all\n", counted(lost, "live record"))
}

// counted writes a number of things.
func counted[T ~int | ~int64](n T, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "ch"):
		thing += "es"
	default:
		thing += "s"
	}
	return thousands(n) + " " + thing
}
