package allocator

import (
	"sync"
	"sync/atomic"
)

// unspelled stands for a class whose pattern is not known.
const unspelled = ^uint32(0)

// classTable maps classes of pools to numbers of patterns. It is read without a lock.
type classTable struct {
	mu      sync.Mutex
	numbers atomic.Pointer[[]atomic.Uint32] // number+1 by class
}

func (t *classTable) get(class uint32) uint32 {
	if numbers := t.numbers.Load(); numbers != nil && int(class) < len(*numbers) {
		return (*numbers)[class].Load() - 1
	}
	return unspelled
}

func (t *classTable) set(class, number uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	numbers := t.numbers.Load()
	if numbers == nil || int(class) >= len(*numbers) {
		larger := make([]atomic.Uint32, max(16, 2*class))
		if numbers != nil {
			for i := range *numbers {
				larger[i].Store((*numbers)[i].Load())
			}
		}
		t.numbers.Store(&larger)
		numbers = &larger
	}
	(*numbers)[class].Store(number + 1)
}
