// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package memo

import "sync"

// Numbers assigns numbers to texts, from 1. It is bounded and safe for concurrent use.
type Numbers struct {
	mu    sync.Mutex
	known map[string]uint32
	last  uint32
}

// Of returns the number of a text. Once most texts have a number, new texts get 0.
func (n *Numbers) Of(text []byte, most int) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if number, known := n.known[string(text)]; known || len(n.known) >= most {
		return number
	}
	if n.known == nil {
		n.known = make(map[string]uint32)
	}
	n.last++
	n.known[string(text)] = n.last
	return n.last
}

// Again is like Of, but when it is full it drops all texts and continues with higher numbers. No number is
// assigned twice, so what was cached under an old one is never found again.
func (n *Numbers) Again(text []byte, most int) uint32 {
	for {
		if number := n.Of(text, most); number != 0 {
			return number
		}
		n.mu.Lock()
		clear(n.known)
		n.mu.Unlock()
	}
}

// Full reports whether most texts have a number.
func (n *Numbers) Full(most int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.known) >= most
}
