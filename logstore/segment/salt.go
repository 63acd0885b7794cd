package segment

import "io"

// FindSalt finds out the salt of a segment whose header is damaged, from two entries that follow one another and agree on it, or from the first one if there is only
// one and accept, which looks at its batches, takes it. The entries lie before end.
func FindSalt(r io.ReaderAt, end int64, accept func(*Entry) bool) (salt uint32, found bool, err error) {
	s := NewScanner(r, 0, HeaderSize, end)
	if salt, found, err = s.onlyEntry(accept); found || err != nil {
		return salt, found, err
	}
	for p := int64(HeaderSize); p+2*EntryHeaderSize <= s.end; p++ {
		s.pos = uint32(p)
		b, err := s.window(EntryHeaderSize)
		if err != nil {
			return 0, false, err
		}
		if zeros := leadingZeros(b); zeros > EntryHeaderSize {
			p += int64(zeros - EntryHeaderSize)
			continue
		}
		first, size, ok, err := s.implied()
		if err != nil {
			return 0, false, err
		}
		if !ok || p+int64(size) >= s.end {
			continue
		}
		s.pos = uint32(p + int64(size))
		second, _, ok, err := s.implied()
		if err != nil {
			return 0, false, err
		}
		if ok && first == second {
			return first, true, nil
		}
	}
	return 0, false, nil
}

// onlyEntry takes the salt from the first entry if nothing but zeros, or the end, follows it.
func (s *Scanner) onlyEntry(accept func(*Entry) bool) (salt uint32, found bool, err error) {
	salt, size, ok, err := s.implied()
	if err != nil || !ok || int64(s.pos)+int64(size) > s.end {
		return 0, false, err
	}
	first := s.pos
	s.pos += uint32(size)
	if int64(s.pos) < s.end {
		b, err := s.window(EntryHeaderSize)
		if err != nil || leadingZeros(b) < min(len(b), EntryHeaderSize) {
			return 0, false, err
		}
	}
	s.Rewind(first)
	b, err := s.window(size)
	if err != nil {
		return 0, false, err
	}
	e, err := ParseEntry(b, salt)
	if err != nil {
		return 0, false, nil
	}
	e.Pos = first
	return salt, accept(&e), nil
}

// implied returns the salt and the length of what would be an entry at the scanner's position.
func (s *Scanner) implied() (salt uint32, size int, ok bool, err error) {
	b, err := s.window(EntryHeaderSize)
	if err != nil || len(b) < EntryHeaderSize {
		return 0, 0, false, err
	}
	size, metaLen, ok := entryLengths(b)
	if !ok || isNoise(b, 0) || int64(s.pos)+int64(EntryHeaderSize+metaLen) > s.end {
		return 0, 0, false, nil
	}
	if b, err = s.window(EntryHeaderSize + metaLen); err != nil || len(b) < EntryHeaderSize+metaLen {
		return 0, 0, false, err
	}
	return impliedSalt(b, metaLen), size, true, nil
}
