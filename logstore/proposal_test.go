package logstore

import (
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"

	"polylog/logstore/vfs"
)

func TestProposalReadsAsWritten(t *testing.T) {
	t.Parallel()
	for i, txn := range everyTxn() {
		id := ProposalID{Writer: 0x1122334455667788, Number: uint64(i)}
		b := encodeProposal([]byte("before"), id, &txn)
		gotID, got, err := decodeProposal(b[len("before"):])
		if err != nil || gotID != id {
			t.Errorf("transaction %d: %+v, %v", i, gotID, err)
			continue
		}
		for j := range txn.Do { // nil values come back empty
			if txn.Do[j].kind == opPut && txn.Do[j].value == nil {
				txn.Do[j].value = []byte{}
			}
			if txn.Do[j].kind == opDelete && txn.Do[j].ranges == nil {
				txn.Do[j].ranges = []Range{}
			}
		}
		if !reflect.DeepEqual(got, txn) {
			t.Errorf("transaction %d came back as %+v, was %+v", i, got, txn)
		}
	}
}

func TestProposalIsLaidOutAsDrawn(t *testing.T) {
	t.Parallel()
	txn := Txn{
		If: []Condition{KeyIs("k", []byte("v")), KeyAbsent("a"), Live(300, 5), NextIs(1, -1)},
		Do: []Op{Delete(1, Range{2, 5}, Range{4, 6}), TrimBefore(1, 7), Put("p", []byte("qr")), Remove("r"), CreateShard("c"), DropShard(9)},
	}
	got := encodeProposal(nil, ProposalID{0x0807060504030201, 0x11}, &txn)
	want := "\x01" + "\x01\x02\x03\x04\x05\x06\x07\x08" + "\x11\x00\x00\x00\x00\x00\x00\x00" +
		"\x04" + "\x01\x01k\x01v" + "\x02\x01a" + "\x03\xac\x02\x0a" + "\x04\x01\x01" +
		"\x06" + "\x02\x01\x02\x04\x03\x01\x02" + "\x03\x01\x07" + "\x04\x01p\x02qr" + "\x05\x01r" + "\x06\x01c" + "\x07\x09"
	if string(got) != want {
		t.Fatalf("got  %x\nwant %x", got, want)
	}
}

func TestBadProposalsAreToldApart(t *testing.T) {
	t.Parallel()
	head := append([]byte{proposalVersion}, make([]byte, 16)...)
	good := encodeProposal(nil, ProposalID{}, &Txn{Do: []Op{AppendBatch(1, batchOf(1, "x"))}})
	flipped := append([]byte{}, good...)
	flipped[len(flipped)-1] ^= 1
	long := encodeProposal(nil, ProposalID{}, &Txn{})
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"empty":                {nil, "invalid: the proposal is empty, or none"},
		"zeros":                {make([]byte, 30), "invalid: the proposal is empty, or none"},
		"newer version":        {[]byte{7}, "proposal has version 7, this program knows 1; update this node"},
		"header only":          {head, "invalid: the proposal is cut off, or has bytes behind its end"},
		"bytes behind":         {append(long, 0), "invalid: the proposal is cut off, or has bytes behind its end"},
		"too many conditions":  {binary.AppendUvarint(head, MaxConditions+1), "conditions of a transaction: 4097, allowed at most 4096"},
		"too many operations":  {binary.AppendUvarint(append(head[:17:17], 0), 1<<63), "operations of a transaction: 2147483648, allowed at most 65536"},
		"negative trim":        {binary.AppendUvarint(append(head[:17:17], 0, 1, byte(opTrimBefore), 1), 1<<63), "invalid: the proposal is cut off, or has bytes behind its end"},
		"damaged batch":        {flipped, "bad proposal: batch for shard 1: record: CRC mismatch"},
		"half a batch":         {good[:len(good)-1], "invalid: the proposal is cut off, or has bytes behind its end"},
		"a range that is none": {append(head[:17:17], 0, 1, byte(opDelete), 1, 1, 2, 0), "invalid: the proposal is cut off, or has bytes behind its end"},
	} {
		_, _, err := decodeProposal(c.b)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		var limit *LimitError
		var invalid *InvalidError
		if hasNoEffect := errors.As(err, &limit) || errors.As(err, &invalid) || errors.Is(err, errBadProposal); hasNoEffect != (name != "newer version") {
			t.Errorf("%s: it is passed over by a node that reads the order: %v", name, hasNoEffect)
		}
	}
}

// Whoever can write to the order could stop all nodes for good with an empty message.
func TestEmptyProposalHasNoEffectAnywhere(t *testing.T) {
	t.Parallel()
	order := newSharedOrder()
	s := openMem(t, vfs.NewMem(), func(o *Options) { o.Sequencer = order })
	defer mustClose(t, s)
	for _, p := range [][]byte{{}, make([]byte, 40)} {
		if err := order.Propose(context.Background(), p); err != nil {
			t.Fatal(err)
		}
	}
	mustCommit(t, s, Put("k", []byte("v")))
	if v, _ := s.Get("k"); string(v) != "v" {
		t.Errorf("the key is %q", v)
	}
}
