// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package persist

import "hash/maphash"

// A node has a child for each value of two bits of the hashes of keys. More bits make paths shorter, but nodes
// without children larger.
const (
	levelBits = 2
	fanOut    = 1 << levelBits
)

// seed is the same for all maps of the process.
var seed = maphash.MakeSeed()

// Map is an immutable hash map, a trie over the hashes of keys. It has no iteration.
type Map[K comparable, V any] struct{ root *node[K, V] }

// node is one key and the subtree of keys below it. The bits of a hash, lowest first, lead from the root to its
// key. Keys with equal hashes are on one path. The entry is a separate object, as changes copy all nodes on the
// path.
type node[K comparable, V any] struct {
	children [fanOut]*node[K, V]
	hash     uint64
	*entry[K, V]
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// IsEmpty reports whether there are no keys.
func (m Map[K, V]) IsEmpty() bool { return m.root == nil }

// Get returns the value of a key and whether there is one.
func (m Map[K, V]) Get(key K) (value V, ok bool) {
	return m.get(maphash.Comparable(seed, key), key)
}

func (m Map[K, V]) get(hash uint64, key K) (value V, ok bool) {
	n := m.root
	for rest := hash; n != nil; rest >>= levelBits {
		if n.is(hash, key) {
			return n.value, true
		}
		n = n.children[rest%fanOut]
	}
	return value, false
}

// With returns a map in which key has the value.
func (m Map[K, V]) With(key K, value V) Map[K, V] {
	return m.with(maphash.Comparable(seed, key), key, value)
}

func (m Map[K, V]) with(hash uint64, key K, value V) Map[K, V] {
	return Map[K, V]{m.root.with(hash, &node[K, V]{hash: hash, entry: &entry[K, V]{key, value}})}
}

// MapEdit collects changes of a map, which itself stays unchanged. If the map was empty, changes copy nothing.
type MapEdit[K comparable, V any] struct {
	of    Map[K, V]
	first bool // the map was empty, so that all nodes belong to this edit
}

// Edit starts with the keys of the map.
func (m Map[K, V]) Edit() MapEdit[K, V] { return MapEdit[K, V]{m, m.IsEmpty()} }

// At returns a pointer to the value of a key, valid until the next call. A missing key is added with the zero
// value.
func (e *MapEdit[K, V]) At(key K) *V { return e.at(maphash.Comparable(seed, key), key) }

func (e *MapEdit[K, V]) at(hash uint64, key K) *V {
	if !e.first {
		value, _ := e.of.get(hash, key)
		copied := &entry[K, V]{key, value}
		e.of.root = e.of.root.with(hash, &node[K, V]{hash: hash, entry: copied})
		return &copied.value
	}
	n := &e.of.root
	for rest := hash; *n != nil; rest >>= levelBits {
		if (*n).is(hash, key) {
			return &(*n).value
		}
		n = &(*n).children[rest%fanOut]
	}
	*n = &node[K, V]{hash: hash, entry: &entry[K, V]{key: key}}
	return &(*n).value
}

// Done returns the changed map. At must not be called afterwards.
func (e *MapEdit[K, V]) Done() Map[K, V] { return e.of }

// Without returns a map that lacks the key.
func (m Map[K, V]) Without(key K) Map[K, V] {
	return m.without(maphash.Comparable(seed, key), key)
}

func (m Map[K, V]) without(hash uint64, key K) Map[K, V] {
	if _, found := m.get(hash, key); !found {
		return m
	}
	return Map[K, V]{m.root.without(hash, hash, key)}
}

func (n *node[K, V]) is(hash uint64, key K) bool { return n.hash == hash && n.key == key }

// with returns n with a node added. It replaces the node with the same key, if there is one. rest are the bits
// of the hash that are left below n.
func (n *node[K, V]) with(rest uint64, added *node[K, V]) *node[K, V] {
	switch {
	case n == nil:
		return added
	case n.is(added.hash, added.key):
		added.children = n.children
		return added
	}
	next := *n
	child := &next.children[rest%fanOut]
	*child = (*child).with(rest>>levelBits, added)
	return &next
}

// without returns n without a key, nil if nothing is left. The key must exist.
func (n *node[K, V]) without(rest, hash uint64, key K) *node[K, V] {
	if n.is(hash, key) {
		left, last := n.pull()
		if left == nil {
			return nil
		}
		// A node from below may take this place, as its hash leads here, too.
		next := *last
		next.children = left.children
		return &next
	}
	next := *n
	child := &next.children[rest%fanOut]
	*child = (*child).without(rest>>levelBits, hash, key)
	return &next
}

// pull removes a leaf below n. It returns what is left, nil if the leaf is n itself.
func (n *node[K, V]) pull() (left, last *node[K, V]) {
	for i, child := range n.children {
		if child != nil {
			next := *n
			next.children[i], last = child.pull()
			return &next, last
		}
	}
	return nil, n
}
