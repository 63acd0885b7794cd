// Package segment is the on-disk form of the log: files of entries, each sealed with an index of the batches inside.
//
// A segment file is a header, entries one after another, and, once the segment is sealed, an index behind them. While a
// segment is open its index lives in memory (MemIndex) and the file is preallocated with zeros, so the end of the entries is the
// first length of zero. The whole format, byte by byte, is docs/log-format.md.
//
// The package knows entries as a sequence number, a few bytes of metadata and the batches behind them. What the metadata means
// (transactions, shards, keys) is logstore's business; here a shard is a number to sort by.
//
// It promises: a reader never takes a damaged entry or index block for a good one, and never allocates by a length that
// the file does not have. It does not decide whether a bad entry is a torn tail or damage (Scanner says where the entries end and
// what was found there; logstore/recover.go judges).
//
// Start with entry.go (framing), then memindex.go and sealed.go (the two forms of the index).
package segment
