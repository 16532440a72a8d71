// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package memo

import "sync/atomic"

// List is what is noted of one object, by key. It is bounded and safe for concurrent use:
// an immutable list, newest first, that is read without a lock.
type List[K comparable, V any] struct {
	head atomic.Pointer[note[K, V]]
}

type note[K comparable, V any] struct {
	key    K
	value  V
	next   *note[K, V]
	length int
}

// Get returns what was noted.
func (l *List[K, V]) Get(key K) (value V, known bool) {
	for n := l.head.Load(); n != nil; n = n.next {
		if n.key == key {
			return n.value, true
		}
	}
	return value, false
}

// Add puts a note in front. With as many as most before it, these are forgotten. Who loses a
// race looks again next time.
func (l *List[K, V]) Add(key K, value V, most int) {
	head := l.head.Load()
	made := &note[K, V]{key: key, value: value, next: head, length: 1}
	if head != nil {
		made.length = head.length + 1
	}
	if made.length > most {
		made.next, made.length = nil, 1
	}
	l.head.CompareAndSwap(head, made)
}
