// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memo has small memories that many goroutines share: bounded, and read without a lock.
package memo

import (
	"encoding/binary"

	"github.com/dray-project/dray/internal/amount"
)

// Key is bytes that are equal for what is alike. What is appended says where it ends, so that
// different sequences are different bytes.
type Key struct{ Bytes []byte }

// KeySize is room for most keys.
const KeySize = 256

// NewKey returns a key with room.
func NewKey() Key { return Key{Bytes: make([]byte, 0, KeySize)} }

// Number appends a number that is not negative.
func (k *Key) Number(n int) { k.Bytes = binary.AppendUvarint(k.Bytes, uint64(n)) }

// Amount appends an amount.
func (k *Key) Amount(a amount.Amount) { k.Bytes = a.AppendKey(k.Bytes) }

// Text appends a string.
func (k *Key) Text(s string) {
	k.Number(len(s))
	k.Bytes = append(k.Bytes, s...)
}

// Flags appends up to eight flags.
func (k *Key) Flags(flags ...bool) {
	b := byte(0)
	for _, flag := range flags {
		b <<= 1
		if flag {
			b |= 1
		}
	}
	k.Bytes = append(k.Bytes, b)
}
