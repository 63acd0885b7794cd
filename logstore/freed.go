package logstore

// freedLimit bounds the ranges remembered between two rounds of the accountant, each of which costs it a look into an index. Beyond it, it is cheaper to
// count everything anew now and then.
const freedLimit = 1 << 13

// freedLog collects the offsets that deletions have freed, until the accountant takes them off its books. Neighbouring ranges grow
// together: a queue that is consumed in order leaves one range. The store's lock guards it.
type freedLog struct {
	ranges   map[Shard][]Range
	n        int
	overflow bool  // some were not remembered
	offsets  int64 // freed in all
}

func (l *freedLog) add(freed []freedRange) {
	for i := range freed {
		l.addOne(freed[i].shard, freed[i].Range)
	}
}

func (l *freedLog) addOne(sh Shard, r Range) {
	l.offsets += r.To - r.From
	if l.overflow {
		return
	}
	rs := l.ranges[sh]
	if n := len(rs); n > 0 {
		switch last := &rs[n-1]; {
		case last.To == r.From:
			last.To = r.To
			return
		case last.From == r.To:
			last.From = r.From
			return
		}
	}
	if l.n == freedLimit {
		*l = freedLog{overflow: true, offsets: l.offsets}
		return
	}
	if l.ranges == nil {
		l.ranges = map[Shard][]Range{}
	}
	l.ranges[sh] = append(rs, r)
	l.n++
}

// take returns what was collected and begins anew.
func (l *freedLog) take() freedLog {
	t := *l
	*l = freedLog{}
	return t
}
