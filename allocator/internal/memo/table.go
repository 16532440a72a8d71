package memo

import (
	"sync"
	"sync/atomic"
)

// Table maps small numbers to numbers. It is safe for concurrent use, and read without
// a lock.
type Table struct {
	mu     sync.Mutex
	values atomic.Pointer[[]atomic.Uint32] // value+1 by key, 0 if there is none
}

// Get returns the number that a key is mapped to.
func (t *Table) Get(key uint32) (value uint32, known bool) {
	if values := t.values.Load(); values != nil && int(key) < len(*values) {
		value = (*values)[key].Load()
		return value - 1, value != 0
	}
	return 0, false
}

// Set may be in vain if the table grows at the same time: then it is found out again.
func (t *Table) Set(key, value uint32) {
	if values := t.values.Load(); values != nil && int(key) < len(*values) {
		(*values)[key].Store(value + 1)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	values := t.values.Load()
	if values == nil || int(key) >= len(*values) {
		larger := make([]atomic.Uint32, max(16, 2*key))
		if values != nil {
			for i := range *values {
				larger[i].Store((*values)[i].Load())
			}
		}
		t.values.Store(&larger)
		values = &larger
	}
	(*values)[key].Store(value + 1)
}
