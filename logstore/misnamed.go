package logstore

import (
	"cmp"
	"fmt"
	"slices"
)

// sortByHeader orders segment files as their headers say, whatever their names, and sets apart the misnamed ones of which there is another: copies that somebody
// made.
func sortByHeader(found []*foundSegment) (sorted, copies []*foundSegment) {
	for _, g := range found {
		if g.misnamed && slices.ContainsFunc(found, g.isRepeatedBy) {
			copies = append(copies, g)
		} else {
			sorted = append(sorted, g)
		}
	}
	slices.SortStableFunc(sorted, func(a, b *foundSegment) int { return cmp.Compare(a.header.ID, b.header.ID) })
	return sorted, copies
}

// isRepeatedBy reports whether o is the better of two files of one segment.
func (g *foundSegment) isRepeatedBy(o *foundSegment) bool {
	switch {
	case o == g || o.header.ID != g.header.ID || o.headErr != nil && !o.misnamed:
		return false
	case !o.misnamed:
		return true
	case o.header.Generation != g.header.Generation:
		return o.header.Generation > g.header.Generation
	}
	return o.name < g.name
}

// placeMisnamed repairs the order of files that bear the names of others; rewriteGood gives them their own.
func (r *recovery) placeMisnamed() error {
	var copies []*foundSegment
	r.found, copies = sortByHeader(r.found)
	for _, g := range copies {
		r.Damage = append(r.Damage, Damage{g.name, 0, g.size, fmt.Sprintf("%v, of which there is another file", g.headErr)})
		if err := r.remove(g.name); err != nil {
			return err
		}
	}
	return nil
}

// guessHeader fills in what a damaged header would say, when lastSeq is the last entry before the segment.
func (g *foundSegment) guessHeader(lastSeq uint64) {
	if g.misnamed {
		return
	}
	g.header.PrevSeq = lastSeq
	if g.index != nil && g.header.Generation > 0 {
		g.header.LastSeq = g.index.LastSeq
	}
}
