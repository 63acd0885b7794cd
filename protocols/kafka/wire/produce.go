package wire

// MaxProduceParts bounds the topics and partitions of one produce request. A batch for each of so many partitions would be far over any request's size; what
// stays below takes some MiB of memory once decoded.
const MaxProduceParts = 1 << 16

var errParts = errorf("a produce request for more than %d topics and partitions", MaxProduceParts)

// producePartBytes is what a topic or partition takes once decoded, for accounting.
const producePartBytes = 80

// CheckProduce walks the body of a produce request of version 0 to 13, of which it needs only the lengths, and returns how much memory its arrays will take. A body that
// claims more than it has, or goes on behind the request, is an *Error.
func CheckProduce(body []byte, version int16) (arrayBytes int64, err error) {
	flexible := version >= 9
	r := Reader{b: body}
	if version >= 3 {
		r.skipString(flexible, "the transactional id")
	}
	r.Skip(2+4, "acks and timeout")
	parts := int64(0)
	for topics := r.arrayLen(flexible, "topics"); topics > 0 && r.err == nil; topics-- {
		if version >= 13 {
			r.Skip(16, "a topic id")
		} else {
			r.skipString(flexible, "a topic's name")
		}
		if parts++; parts > MaxProduceParts {
			return 0, errParts
		}
		for partitions := r.arrayLen(flexible, "partitions"); partitions > 0 && r.err == nil; partitions-- {
			r.Skip(4, "a partition")
			r.skipBytes(flexible, "records")
			if flexible {
				r.SkipTags()
			}
			if parts++; parts > MaxProduceParts {
				return 0, errParts
			}
		}
		if flexible {
			r.SkipTags()
		}
	}
	if flexible {
		r.SkipTags()
	}
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes behind the end of a produce request", len(r.b))
	}
	return parts * producePartBytes, r.err
}

// arrayLen reads the length of an array. Null counts as empty.
func (r *Reader) arrayLen(flexible bool, what string) int {
	n := 0
	if flexible {
		n = int(r.Uvarint("the count of "+what)) - 1
	} else {
		n = int(r.Int32("the count of " + what))
	}
	if n < -1 || n > len(r.b) {
		r.fail("%d %s in %d bytes", n, what, len(r.b))
	}
	return max(n, 0)
}

func (r *Reader) skipString(flexible bool, what string) {
	if flexible {
		r.Skip(max(int(r.Uvarint(what))-1, 0), what)
		return
	}
	if n := int(r.Int16(what)); n != -1 {
		r.Skip(n, what)
	}
}

func (r *Reader) skipBytes(flexible bool, what string) {
	if flexible {
		r.Skip(max(int(r.Uvarint(what))-1, 0), what)
		return
	}
	if n := int(r.Int32(what)); n != -1 {
		r.Skip(n, what)
	}
}
