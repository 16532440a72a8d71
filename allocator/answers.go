package allocator

import (
	"maps"
	"sync"
	"sync/atomic"
)

// answers remembers answers by signature. It is bounded and safe for concurrent use:
// what has been there for a while is read without a lock and without an allocation.
type answers struct {
	settled atomic.Pointer[map[string]*answer] // never written to
	// pending is set while there are answers in fresh.
	pending atomic.Bool

	mu    sync.Mutex
	fresh map[string]*answer // and not in settled
	// asked counts look-ups in fresh since answers were last settled.
	asked int
}

// maxAnswers bounds what is remembered before it starts anew.
const maxAnswers = 1 << 14

func newAnswers() *answers {
	a := &answers{fresh: make(map[string]*answer)}
	a.settled.Store(new(map[string]*answer))
	return a
}

// get returns nil if there is no such answer.
func (a *answers) get(signature []byte) *answer {
	if known := (*a.settled.Load())[string(signature)]; known != nil {
		return known
	}
	if !a.pending.Load() {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.fresh[string(signature)]
	if a.asked++; a.asked > len(*a.settled.Load())+len(a.fresh) {
		a.settle()
	}
	if known == nil {
		known = (*a.settled.Load())[string(signature)] // settled by another goroutine meanwhile
	}
	return known
}

func (a *answers) add(signature []byte, known *answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fresh[string(signature)] = known
	settled := len(*a.settled.Load())
	if len(a.fresh) > settled/4 {
		a.settle()
	}
	a.pending.Store(len(a.fresh) > 0)
}

// settle copies: that costs no more than a few steps for each answer that was added or
// asked for since the last time.
func (a *answers) settle() {
	if len(a.fresh) == 0 {
		return
	}
	all := make(map[string]*answer, len(*a.settled.Load())+len(a.fresh))
	if len(*a.settled.Load()) < maxAnswers {
		maps.Copy(all, *a.settled.Load())
	}
	maps.Copy(all, a.fresh)
	a.settled.Store(&all)
	clear(a.fresh)
	a.asked = 0
	a.pending.Store(false)
}
