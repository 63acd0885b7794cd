package vfs

import "fmt"

// OpKind names an operation of FS or File.
type OpKind uint8

// The operations. OpClose stands for the closing of files and locks.
const (
	OpCreate OpKind = iota
	OpOpen
	OpOpenWrite
	OpRemove
	OpRename
	OpList
	OpMkdirAll
	OpSyncDir
	OpStat
	OpLock
	OpFree
	OpRead
	OpWrite
	OpSync
	OpTruncate
	OpPreallocate
	OpClose
)

var opNames = [...]string{
	OpCreate:      "create",
	OpOpen:        "open",
	OpOpenWrite:   "open for writing",
	OpRemove:      "remove",
	OpRename:      "rename",
	OpList:        "list",
	OpMkdirAll:    "mkdir",
	OpSyncDir:     "sync dir",
	OpStat:        "stat",
	OpLock:        "lock",
	OpFree:        "free",
	OpRead:        "read",
	OpWrite:       "write",
	OpSync:        "sync",
	OpTruncate:    "truncate",
	OpPreallocate: "preallocate",
	OpClose:       "close",
}

func (k OpKind) String() string {
	if int(k) < len(opNames) {
		return opNames[k]
	}
	return fmt.Sprintf("OpKind(%d)", uint8(k))
}

// Op is one operation.
type Op struct {
	Kind   OpKind
	Name   string // of the file or directory, as the caller gave it; the old one of a rename
	To     string // the new name of a rename, else empty
	Offset int64  // of a read or write
	Size   int64  // bytes to read or write; the size asked for by truncate and preallocate
}

// String renders the operation as one line of a transcript.
func (op Op) String() string {
	switch op.Kind {
	case OpRename:
		return fmt.Sprintf("%v %s to %s", op.Kind, op.Name, op.To)
	case OpRead, OpWrite:
		return fmt.Sprintf("%v %s %d+%d", op.Kind, op.Name, op.Offset, op.Size)
	case OpTruncate, OpPreallocate:
		return fmt.Sprintf("%v %s to %d", op.Kind, op.Name, op.Size)
	}
	return fmt.Sprintf("%v %s", op.Kind, op.Name)
}
