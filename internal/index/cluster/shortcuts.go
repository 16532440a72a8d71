package cluster

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// shortcuts lead to the places of nodes that are asked about again and again: they look at
// memory once where a trie does at each level. They are safe for concurrent use.
type shortcuts struct {
	slots atomic.Pointer[[]atomic.Pointer[Place]]
	// asked counts until shortcuts are worth their memory.
	asked atomic.Int64
}

var shortcutSeed = maphash.MakeSeed()

// to returns where the place of a node is if it is known. Another one may be there. It is nil
// as long as few of so many nodes were asked about.
func (s *shortcuts) to(node string, nodes int) *atomic.Pointer[Place] {
	slots := s.slots.Load()
	if slots == nil {
		if s.asked.Add(1) <= int64(nodes/4) {
			return nil
		}
		made := make([]atomic.Pointer[Place], 2<<bits.Len(uint(nodes)))
		s.slots.CompareAndSwap(nil, &made)
		slots = s.slots.Load()
	}
	return &(*slots)[maphash.String(shortcutSeed, node)&uint64(len(*slots)-1)]
}
