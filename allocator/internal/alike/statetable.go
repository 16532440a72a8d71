package alike

import (
	"sync"
	"sync/atomic"
)

// stateTable has answers by the number of a state. It is read without a lock, and is
// bounded: numbers that are much older than the newest one are forgotten.
type stateTable struct {
	mu      sync.Mutex
	current atomic.Pointer[stateRange]
}

// stateRange has the answers for the numbers from first on.
type stateRange struct {
	first   uint32
	answers []atomic.Pointer[Answer]
}

func (t *stateTable) get(state uint32) *Answer {
	if r := t.current.Load(); r != nil && state-r.first < uint32(len(r.answers)) {
		return r.answers[state-r.first].Load()
	}
	return nil
}

// set may be in vain if the table grows at the same time: then it is found out again.
func (t *stateTable) set(state uint32, a *Answer) {
	if r := t.current.Load(); r != nil && state-r.first < uint32(len(r.answers)) {
		r.answers[state-r.first].Store(a)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.current.Load()
	switch {
	case r == nil:
		r = &stateRange{first: state}
	case state < r.first && r.first-state >= maxStates:
		return
	case state < r.first:
		// Goroutines come with their states in any order.
		r = r.from(state - min(state, uint32(len(r.answers))))
	case state-r.first >= 2*maxStates:
		r = &stateRange{first: state}
	}
	if at := int(state - r.first); at >= len(r.answers) {
		larger := &stateRange{first: r.first, answers: make([]atomic.Pointer[Answer], max(16, 2*at))}
		for i := range r.answers {
			larger.answers[i].Store(r.answers[i].Load())
		}
		r = larger
	}
	r.answers[state-r.first].Store(a)
	t.current.Store(r)
}

// from returns a copy that starts earlier.
func (r *stateRange) from(first uint32) *stateRange {
	earlier := &stateRange{first: first, answers: make([]atomic.Pointer[Answer], int(r.first-first)+len(r.answers))}
	for i := range r.answers {
		earlier.answers[int(r.first-first)+i].Store(r.answers[i].Load())
	}
	return earlier
}
