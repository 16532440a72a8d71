package persist

import "hash/maphash"

// A node of the trie has a child for each value of four bits of the keys' hashes.
const (
	levelBits = 4
	fanOut    = 1 << levelBits
)

// seed is one for the whole program: a key has the same place in all maps.
var seed = maphash.MakeSeed()

// Map is an immutable hash map. It has no iteration order and offers none.
type Map[K comparable, V any] struct{ root *node[K, V] }

// node is a level of the trie. Only the root may be nil, when there are no keys.
type node[K comparable, V any] [fanOut]child[K, V]

// child is either a node of the next level or a leaf, or nothing.
type child[K comparable, V any] struct {
	node *node[K, V]
	leaf *leaf[K, V]
}

// leaf is a key and its value. next links keys with equal hashes.
type leaf[K comparable, V any] struct {
	hash  uint64
	key   K
	value V
	next  *leaf[K, V]
}

// IsEmpty reports whether there are no keys.
func (m Map[K, V]) IsEmpty() bool { return m.root == nil }

// Get returns the value of a key and whether there is one.
func (m Map[K, V]) Get(key K) (value V, ok bool) {
	return m.get(maphash.Comparable(seed, key), key)
}

func (m Map[K, V]) get(hash uint64, key K) (value V, ok bool) {
	shift := 0
	for n := m.root; n != nil; shift += levelBits {
		c := n.child(hash, shift)
		for l := c.leaf; l != nil; l = l.next {
			if l.hash == hash && l.key == key {
				return l.value, true
			}
		}
		n = c.node
	}
	return value, false
}

// With returns a map in which key has the value.
func (m Map[K, V]) With(key K, value V) Map[K, V] {
	return m.with(maphash.Comparable(seed, key), key, value)
}

func (m Map[K, V]) with(hash uint64, key K, value V) Map[K, V] {
	return Map[K, V]{m.root.with(0, &leaf[K, V]{hash: hash, key: key, value: value})}
}

// Without returns a map that lacks the key.
func (m Map[K, V]) Without(key K) Map[K, V] {
	return m.without(maphash.Comparable(seed, key), key)
}

func (m Map[K, V]) without(hash uint64, key K) Map[K, V] {
	if _, found := m.get(hash, key); !found {
		return m
	}
	return Map[K, V]{m.root.without(0, hash, key)}
}

func (n *node[K, V]) child(hash uint64, shift int) *child[K, V] {
	return &n[hash>>shift%fanOut]
}

func (n *node[K, V]) with(shift int, added *leaf[K, V]) *node[K, V] {
	var next node[K, V]
	if n != nil {
		next = *n
	}
	c := next.child(added.hash, shift)
	below := shift + levelBits
	switch {
	case c.node != nil:
		c.node = c.node.with(below, added)
	case c.leaf != nil && c.leaf.hash != added.hash:
		// Hashes differ, so they part before the bits run out.
		var both node[K, V]
		both.child(c.leaf.hash, below).leaf = c.leaf
		c.node, c.leaf = both.with(below, added), nil
	default:
		added.next = c.leaf.without(added.key)
		c.leaf = added
	}
	return &next
}

// without returns nil when nothing is left. The key must be there.
func (n *node[K, V]) without(shift int, hash uint64, key K) *node[K, V] {
	next := *n
	c := next.child(hash, shift)
	if c.node != nil {
		c.node = c.node.without(shift+levelBits, hash, key)
	} else {
		c.leaf = c.leaf.without(key)
	}
	if next == (node[K, V]{}) {
		return nil
	}
	return &next
}

// without returns the chain without the key, copying what comes before it.
func (l *leaf[K, V]) without(key K) *leaf[K, V] {
	if l == nil {
		return nil
	}
	if l.key == key {
		return l.next
	}
	return &leaf[K, V]{hash: l.hash, key: l.key, value: l.value, next: l.next.without(key)}
}
