// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package persist has collections that share structure between versions: setting a
// key returns a new version and leaves the old one as it was, at the cost of
// copying the few nodes on the way to the key. A version is immutable, so it can be
// read by any number of goroutines without locks and a copy of it costs one word or
// three. That is what makes a ledger's branch free.
//
//   - [Array] (array.go) is indexed by small integers.
//   - [Map] (map.go) is a hash trie.
//
// The zero value of each is empty.
package persist
