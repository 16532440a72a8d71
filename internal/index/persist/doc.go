// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package persist has persistent collections, whose versions share structure. Setting a key returns a new
// version and leaves the old one unchanged; only the nodes on the path to the key are copied. A version is
// immutable, so that any number of goroutines can read it without locks. Copying a version costs one to three
// words. That makes a branch of a ledger free.
//
//   - [Array] (array.go) is indexed by small integers.
//   - [Map] (map.go) is a hash trie.
//
// The zero value of each is empty.
package persist
