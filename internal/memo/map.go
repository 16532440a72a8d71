// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package memo

import (
	"sync"
	"sync/atomic"
)

// Map caches values by key. It is bounded and safe for concurrent use; reading takes no lock. The zero value is
// empty.
type Map[K comparable, V any] struct {
	kept sync.Map
	size atomic.Int64
}

// Get returns the cached value of a key.
func (m *Map[K, V]) Get(key K) (value V, known bool) {
	found, known := m.kept.Load(key)
	if !known {
		return value, false
	}
	return found.(V), true
}

// Add caches a value. If the map has most values already, they are dropped. With most zero or less, nothing is
// cached.
func (m *Map[K, V]) Add(key K, value V, most int) {
	if most <= 0 {
		return
	}
	if _, replaced := m.kept.Swap(key, value); replaced || m.size.Add(1) <= int64(most) {
		return
	}
	m.kept.Clear()
	m.size.Store(1)
	m.kept.Store(key, value)
}

// All visits the cached values.
func (m *Map[K, V]) All(yield func(K, V) bool) {
	m.kept.Range(func(key, value any) bool { return yield(key.(K), value.(V)) })
}
