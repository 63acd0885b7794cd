// Package record is the codec of the record batch, format v2 (KIP-98): the only form in which messages are stored and served.
//
// A batch lies in memory as it lies on disk and on the wire. Batch is a view of those bytes; reading a field decodes it, nothing is
// unpacked ahead. All header integers are big-endian, the varints of the records are zigzag (varint 32 bits, varlong 64 bits).
//
//	 0  int64   base offset
//	 8  int32   length of what follows
//	12  int32   partition leader epoch
//	16  int8    magic, 2
//	17  uint32  CRC-32C of everything behind this field
//	21  int16   attributes: bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
//	23  int32   last offset delta
//	27  int64   base timestamp
//	35  int64   max timestamp
//	43  int64   producer id
//	51  int16   producer epoch
//	53  int32   base sequence
//	57  int32   count of records
//	61  records, compressed together if there is a codec:
//
//	varint   length of what follows
//	int8     attributes, unused
//	varlong  timestamp delta
//	varint   offset delta
//	varint   length of the key, -1 for null;    the key
//	varint   length of the value, -1 for null;  the value
//	varint   count of headers
//	         per header: varint length of the key, the key; varint length of the value or -1 for null, the value
//
// The base offset and the leader epoch are outside the CRC, so a broker places a producer's batch without reading it (SetBase).
//
// What the package promises:
//
//   - No input makes it panic or read outside the batch. A batch that Parse took has a coherent header and an intact CRC; one that
//     Validate took also iterates without error, because the same code walks it.
//   - What it allocates follows the bytes that are there and what they can expand to, not the lengths they claim, and no decompression
//     goes past the limit in Scratch or Limits.
//   - Iterating an uncompressed batch, parsing, and building into a warm Builder allocate nothing.
//   - Filter keeps the bytes of the records it keeps, and their offsets, timestamps and producer sequence.
//   - It starts no goroutine and reads no clock.
//
// What it does not do: it reads no older magic, writes no gzip or snappy, and does not judge what a record means. Keys of control
// records, sequences and transaction rules are the caller's.
//
// Start with batch.go (the view), then iter.go (reading), builder.go (writing) and filter.go (cleaning). decompress.go,
// with unlz4.go, unsnappy.go and unzstd.go, and compress.go hold the codecs.
package record
