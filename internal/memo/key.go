// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memo has small caches that many goroutines share: bounded, and mostly read without a lock.
package memo

import (
	"encoding/binary"

	"github.com/dray-project/dray/internal/amount"
)

// Key is a byte string that identifies content. Each method writes a self-delimiting value, so that different
// sequences of values give different keys.
type Key struct{ Bytes []byte }

// KeySize is enough for most keys.
const KeySize = 256

// NewKey returns an empty key with a capacity of KeySize.
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
