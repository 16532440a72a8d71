package persist

import (
	"hash/maphash"
	"math/bits"
)

// A trie node has up to 32 children, picked by five bits of the key's hash.
const (
	levelBits = 5
	levelMask = 1<<levelBits - 1
)

// seed is one for the whole program: a key has the same place in all maps.
var seed = maphash.MakeSeed()

// Map is an immutable hash map. It has no iteration order and offers none.
type Map[K comparable, V any] struct {
	root *node[K, V]
	size int
}

// node is a level of the trie: children holds one entry per bit set in bitmap, in
// bit order. Below the last level keys collide and leaves are chained.
type node[K comparable, V any] struct {
	bitmap   uint32
	children []child[K, V]
}

// child is either a node of the next level or a leaf.
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

// Len returns the number of keys.
func (m Map[K, V]) Len() int { return m.size }

// Get returns the value of a key and whether there is one.
func (m Map[K, V]) Get(key K) (value V, ok bool) {
	return m.get(maphash.Comparable(seed, key), key)
}

func (m Map[K, V]) get(hash uint64, key K) (value V, ok bool) {
	n := m.root
	for shift := 0; n != nil; shift += levelBits {
		bit := bitAt(hash, shift)
		if n.bitmap&bit == 0 {
			return value, false
		}
		c := n.children[n.position(bit)]
		if c.leaf != nil {
			return c.leaf.find(hash, key)
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
	_, found := m.get(hash, key)
	size := m.size + 1
	if found {
		size = m.size
	}
	return Map[K, V]{root: m.root.with(0, &leaf[K, V]{hash: hash, key: key, value: value}), size: size}
}

// Without returns a map that lacks the key.
func (m Map[K, V]) Without(key K) Map[K, V] {
	return m.without(maphash.Comparable(seed, key), key)
}

func (m Map[K, V]) without(hash uint64, key K) Map[K, V] {
	if _, found := m.get(hash, key); !found {
		return m
	}
	return Map[K, V]{root: m.root.without(0, hash, key), size: m.size - 1}
}

func bitAt(hash uint64, shift int) uint32 { return 1 << (hash >> shift & levelMask) }

// position is where the child of a bit is or would be.
func (n *node[K, V]) position(bit uint32) int { return bits.OnesCount32(n.bitmap & (bit - 1)) }

func (n *node[K, V]) with(shift int, l *leaf[K, V]) *node[K, V] {
	bit := bitAt(l.hash, shift)
	if n == nil {
		return &node[K, V]{bitmap: bit, children: []child[K, V]{{leaf: l}}}
	}
	at := n.position(bit)
	if n.bitmap&bit == 0 {
		children := make([]child[K, V], len(n.children)+1)
		copy(children, n.children[:at])
		children[at].leaf = l
		copy(children[at+1:], n.children[at:])
		return &node[K, V]{bitmap: n.bitmap | bit, children: children}
	}
	return n.replace(at, n.children[at].with(shift+levelBits, l))
}

func (c child[K, V]) with(shift int, l *leaf[K, V]) child[K, V] {
	switch {
	case c.node != nil:
		return child[K, V]{node: c.node.with(shift, l)}
	case c.leaf.hash == l.hash:
		l.next = c.leaf.remove(l.key)
		return child[K, V]{leaf: l}
	}
	// Hashes differ, so they part before the bits run out.
	return child[K, V]{node: c.split(shift).with(shift, l)}
}

// split makes a node of the level at shift for a lone leaf.
func (c child[K, V]) split(shift int) *node[K, V] {
	return &node[K, V]{bitmap: bitAt(c.leaf.hash, shift), children: []child[K, V]{c}}
}

func (n *node[K, V]) replace(at int, c child[K, V]) *node[K, V] {
	children := make([]child[K, V], len(n.children))
	copy(children, n.children)
	children[at] = c
	return &node[K, V]{bitmap: n.bitmap, children: children}
}

// without returns nil when nothing is left. The key must be there.
func (n *node[K, V]) without(shift int, hash uint64, key K) *node[K, V] {
	bit := bitAt(hash, shift)
	at := n.position(bit)
	c := n.children[at]
	if c.node != nil {
		c.node = c.node.without(shift+levelBits, hash, key)
	} else {
		c.leaf = c.leaf.remove(key)
	}
	if c != (child[K, V]{}) {
		return n.replace(at, c)
	}
	if len(n.children) == 1 {
		return nil
	}
	children := make([]child[K, V], len(n.children)-1)
	copy(children, n.children[:at])
	copy(children[at:], n.children[at+1:])
	return &node[K, V]{bitmap: n.bitmap &^ bit, children: children}
}

func (l *leaf[K, V]) find(hash uint64, key K) (value V, ok bool) {
	for ; l != nil; l = l.next {
		if l.hash == hash && l.key == key {
			return l.value, true
		}
	}
	return value, false
}

// remove returns the chain without key, copying what comes before it.
func (l *leaf[K, V]) remove(key K) *leaf[K, V] {
	if l == nil {
		return nil
	}
	if l.key == key {
		return l.next
	}
	return &leaf[K, V]{hash: l.hash, key: l.key, value: l.value, next: l.next.remove(key)}
}
