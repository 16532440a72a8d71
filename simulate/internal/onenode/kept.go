// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import "sync"

// Bounds limit what is remembered from one call to the next. Of each, zero is none.
type Bounds struct {
	// Questions is how many different claims there are, questions of several claims, and classes.
	Questions int
	// Nodes is how many different nodes a read set tells apart, by their devices, and a quarter of how many different devices.
	Nodes int
	// States is how many states of equal nodes are found again, and how many answers that depend on pools of several nodes.
	States int
	// Answers is how many answers are kept about one state.
	Answers int
	// Total is how many states and answers are kept of all nodes together. Those about states that follow count as well.
	Total int
}

// kept has what is remembered of all contents, and forgets it if it is too much. Askers of one Open share it. It is safe for
// concurrent use.
type kept struct {
	Bounds

	mu sync.Mutex
	// total is how many states and answers are remembered. It may be too high by those that were added while all were forgotten.
	total int
	// forgotten is how often all were.
	forgotten int
	// contents have states that are found again, states have answers.
	contents []*content
	states   []*State
}

// note notes that there are more states and answers, or less. The content is given if these are its first states, the state if
// they are its first answers. No content or state must be locked.
func (k *kept) note(more int, c *content, s *State) {
	k.mu.Lock()
	if c != nil {
		k.contents = append(k.contents, c)
	}
	if s != nil {
		k.states = append(k.states, s)
	}
	if k.total += more; k.total <= k.Total {
		k.mu.Unlock()
		return
	}
	contents, states := k.contents, k.states
	k.contents, k.states, k.total = nil, nil, 0
	k.forgotten++
	k.mu.Unlock()
	for _, c := range contents {
		c.mu.Lock()
		clear(c.states) // states that nodes are in live on
		c.listed = false
		c.mu.Unlock()
	}
	for _, s := range states {
		s.mu.Lock()
		s.answers.Store(nil)
		s.mu.Unlock()
	}
}

// size is how many states and answers are remembered, and how often they were forgotten.
func (k *kept) size() (total, forgotten int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.total, k.forgotten
}
