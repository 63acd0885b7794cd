package record

import (
	"errors"
	"fmt"
)

// The kinds of error. Every error of this package is an *Error that unwraps to one of them.
var (
	ErrTruncated = errors.New("truncated batch")         // fewer bytes than the batch says it has
	ErrCRC       = errors.New("CRC mismatch")            // the bytes are not those that were written
	ErrMagic     = errors.New("unsupported batch magic") // not format v2
	ErrMalformed = errors.New("malformed batch")         // contradicts itself or the format
	ErrTooLarge  = errors.New("batch too large")         // over MaxBatchSize, or over the limit once decompressed
	ErrCodec     = errors.New("unsupported codec")       // a codec that does not exist, or that is not written here
)

// Error says what is wrong with one batch.
type Error struct {
	Kind   error  // one of the Err variables
	Offset int64  // base offset of the batch, -1 if it is not known
	Detail string // the value found and what is allowed
}

func (e *Error) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("record: %v: %s", e.Kind, e.Detail)
	}
	return fmt.Sprintf("record: %v: base offset %d: %s", e.Kind, e.Offset, e.Detail)
}

func (e *Error) Unwrap() error { return e.Kind }

func failure(kind error, base int64, format string, args ...any) error {
	return &Error{Kind: kind, Offset: base, Detail: fmt.Sprintf(format, args...)}
}
