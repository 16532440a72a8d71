// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import "sync"

// Bounds limit what is cached from one call to the next. Of each, zero caches none.
type Bounds struct {
	// Questions is the number of specs, of questions, and of classes.
	Questions int
	// Nodes is the number of different contents of nodes in a read set, and a quarter of the number of different devices.
	Nodes int
	// States is the number of states of one content, and of answers that depend on pools of several nodes.
	States int
	// Answers is the number of answers for one state.
	Answers int
	// Total is the number of states and answers of all nodes together. States that only follow from an answer count as well.
	Total int
}

// stateCache counts the cached states and answers of all contents. Once they exceed Total, it drops all of
// them. Askers of one Open share it. It is safe for concurrent use.
type stateCache struct {
	Bounds

	mu sync.Mutex
	// total is the number of states and answers. It may be too high by those that were added while all were dropped.
	total int
	// forgotten is how many times all were dropped.
	forgotten int
	// contents are those with cached states, states those with cached answers.
	contents []*content
	states   []*State
}

// grow counts more states and answers, or fewer if more is negative. The content is given with its first
// states, the state with its first answers. No content or state may be locked.
func (k *stateCache) grow(more int, c *content, s *State) {
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
		clear(c.states) // a state that a node is in stays alive
		c.listed = false
		c.mu.Unlock()
	}
	for _, s := range states {
		s.mu.Lock()
		s.answers.Store(nil)
		s.mu.Unlock()
	}
}

// size returns the number of states and answers, and how many times they were dropped.
func (k *stateCache) size() (total, forgotten int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.total, k.forgotten
}
