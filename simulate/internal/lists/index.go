// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package lists

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/internal/index/persist"
)

// Index maps names to positions. It is immutable. Versions share structure.
type Index struct {
	read    map[types.NamespacedName]int32
	changed persist.Map[types.NamespacedName, int32] // absent for removed names
}

const absent = -1

// NewIndex returns an index of these positions. The map must not be modified later.
func NewIndex(read map[types.NamespacedName]int32) *Index { return &Index{read: read} }

// Get returns the position of a name.
func (x *Index) Get(key types.NamespacedName) (position int, found bool) {
	n, found := x.changed.Get(key)
	if !found {
		n, found = x.read[key]
	}
	return int(n), found && n != absent
}

// With returns the index with a position for a name.
func (x *Index) With(key types.NamespacedName, position int) *Index {
	return &Index{read: x.read, changed: x.changed.With(key, int32(position))}
}

// Without returns the index without a name.
func (x *Index) Without(key types.NamespacedName) *Index { return x.With(key, absent) }
