package main

import (
	"context"
	"encoding/json"
	"fmt"
)

// claims are records of the index topic about one queue.
type claims []claim

// claim is such a record. A range is [first offset, count] or [first offset, count, counters...].
type claim struct {
	Kind   string    `json:"kind"`
	Queue  string    `json:"queue"`
	Holder string    `json:"holder"`
	Ranges [][]int64 `json:"ranges"`
	text   string
}

// indexTopic says who holds what.
const indexTopic = "__claims"

func (s *scene) readIndex(ctx context.Context) (claims, error) {
	records, err := s.readAll(ctx, indexTopic)
	if err != nil {
		return nil, err
	}
	var cs claims
	for _, r := range records {
		c := claim{text: string(r.Value)}
		if err := json.Unmarshal(r.Value, &c); err != nil {
			return nil, fmt.Errorf("a record of %s is %q: %w", indexTopic, r.Value, err)
		}
		if c.Queue == s.queue {
			cs = append(cs, c)
		}
	}
	return cs, nil
}

// covered returns how many messages, not yet settled, the claims say are out, and how many of those nobody here holds.
func (cs claims) covered(t *taking) (out, foreign int64) {
	for _, c := range cs {
		if c.Kind != "claim" {
			continue
		}
		for _, r := range c.Ranges {
			if len(r) < 2 {
				continue
			}
			for i := r[0]; i < r[0]+r[1]; i++ {
				if t.isAcked(i) {
					continue
				}
				out++
				if !t.isHeld(i) {
					foreign++
				}
			}
		}
	}
	return out, foreign
}

// examples returns up to n of them as text that fits a line.
func (cs claims) examples(n int) []string {
	var out []string
	for _, c := range cs[:min(n, len(cs))] {
		out = append(out, fmt.Sprintf("%s of %v by %s", c.Kind, c.Ranges[:min(3, len(c.Ranges))], c.Holder))
	}
	return out
}
