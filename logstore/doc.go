// Package logstore is the kernel: one segmented log with shards of record batches and an ordered key-value map, changed by atomic transactions in
// one total order.
//
// It promises:
//   - A transaction is applied whole or not at all, at one point of the order, under conditions that are judged at that point.
//   - What was answered under Durable survives a killed process, and with SyncAlways a power loss.
//   - Records are readable once they are as durable as the sync policy says, in the order of their offsets, never after their deletion.
//   - The same order of transactions leads to the same state (Hash), whether the store makes the order or follows one (Sequencer).
//   - Damage on disk is reported with file and position, never passed over.
//
// It does not know what a topic, a queue or a consumer group is: those are shards and keys that the view layer names.
//
// Where to begin: txn.go (what can be asked), apply.go and state.go (what it means, as a pure function), local.go and writer.go (how it becomes an order
// on disk), locate.go and read.go (how it is read), recover.go (how it comes back), clean.go (how space comes back), snapshot.go and restore.go (how it
// is copied). docs/log-format.md is the form on disk; segment/ and record/ read and write it, vfs/ is the disk.
package logstore
