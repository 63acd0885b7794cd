// Package vfs is the disk as the log sees it: an interface to files, the operating system behind it, and two stand-ins for tests.
//
// The log does all its input and output through FS and File, so that the promises it makes about crashes can be tried: OS is the real thing,
// Mem is a disk in memory that can lose its power, and Fault makes chosen operations on either fail.
//
// What is durable when is the contract that all three share:
//
//   - Bytes and size of a file are durable once Sync of any handle on it returned without an error.
//   - A creation, rename or removal is durable once SyncDir of the directory returned. Syncing the file does not make its name durable.
//   - Directories are durable when MkdirAll returns.
//   - What is not durable may survive a power loss or not, in any order, and a write may survive in part, cut between sectors of 512 bytes.
//   - When only the process dies, all that it wrote is there afterwards, but is no more durable than before.
//
// Mem knows for each file what is durable and which changes are not, and a CrashPlan chooses among these. It is stricter than most
// file systems: on ext4 a name is in fact durable with the first sync of its new file, and hardly any disk tears writes so readily. It does not
// model a disk that lies about syncs, bytes that rot (Corrupt damages them by hand) or a sync that fails (that is for Fault).
//
// The package promises no ordering between goroutines beyond that of their own synchronization, and there is no buffering
// in it: what WriteAt took, ReadAt of every handle finds.
//
// Start with fs.go for the contract. os.go is the operating system. Mem is in mem.go (the tree), memfile.go (open files), memtree.go (names and what
// is durable of them), image.go (sparse contents), space.go (a full disk), crash.go and outcome.go (power loss), and inspect.go (what tests
// look at). Fault is in fault.go, its operations in op.go.
package vfs
