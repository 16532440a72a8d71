// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package memo

import "sync/atomic"

// List caches values for one object, by key. It is bounded and safe for concurrent use: an immutable linked
// list, newest first, that is read without a lock.
type List[K comparable, V any] struct {
	head atomic.Pointer[listNode[K, V]]
}

type listNode[K comparable, V any] struct {
	key    K
	value  V
	next   *listNode[K, V]
	length int
}

// Get returns the cached value of a key.
func (l *List[K, V]) Get(key K) (value V, known bool) {
	for n := l.head.Load(); n != nil; n = n.next {
		if n.key == key {
			return n.value, true
		}
	}
	return value, false
}

// Add puts a value in front. If the list has most values already, they are dropped. A concurrent Add may win;
// then the value is not cached.
func (l *List[K, V]) Add(key K, value V, most int) {
	head := l.head.Load()
	made := &listNode[K, V]{key: key, value: value, next: head, length: 1}
	if head != nil {
		made.length = head.length + 1
	}
	if made.length > most {
		made.next, made.length = nil, 1
	}
	l.head.CompareAndSwap(head, made)
}
