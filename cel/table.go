// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"reflect"
	"slices"
	"sync"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// table is a CEL map over sorted keys. Unlike a Go map it iterates in a fixed order, so that expressions that
// depend on the order have one result.
//
// Most operations are lookups, which are binary searches. All other operations of a map are delegated to a CEL
// map with the same content, made when first needed.
type table struct {
	keys   []string  // sorted, without duplicates
	values []ref.Val // by position in keys
	// quantities is set if all values are quantities. Keys that are not strings are then converted before they
	// are looked up, as CEL does for maps of Go values.
	quantities bool

	makeOrdinary sync.Once
	ordinaryMap  traits.Mapper

	makeKeyList sync.Once
	keyList     traits.Lister
}

// at returns the value of a key.
func (t *table) at(key string) (ref.Val, bool) {
	i, found := slices.BinarySearch(t.keys, key)
	if !found {
		return nil, false
	}
	return t.values[i], true
}

// Find implements [traits.Mapper].
func (t *table) Find(key ref.Val) (ref.Val, bool) {
	if s, ok := key.(types.String); ok {
		return t.at(string(s))
	}
	if t.quantities {
		return t.ordinary().Find(key)
	}
	return nil, false
}

// Contains implements [traits.Container].
func (t *table) Contains(key ref.Val) ref.Val {
	_, found := t.Find(key)
	return types.Bool(found)
}

// Get implements [traits.Indexer].
func (t *table) Get(key ref.Val) ref.Val {
	value, found := t.Find(key)
	if !found {
		return types.NewErr("no such key: %v", key)
	}
	return value
}

// Size implements [traits.Sizer].
func (t *table) Size() ref.Val { return types.Int(len(t.keys)) }

// Iterator implements [traits.Iterable]: it iterates over the keys. They are converted to CEL values once, as
// nested comprehensions iterate thousands of times.
func (t *table) Iterator() traits.Iterator {
	t.makeKeyList.Do(func() {
		values := make([]ref.Val, len(t.keys))
		for i, key := range t.keys {
			values[i] = types.String(key)
		}
		t.keyList = types.NewRefValList(theSharedEnv().adapter, values)
	})
	return t.keyList.Iterator()
}

// Type implements [ref.Val].
func (t *table) Type() ref.Type { return types.MapType }

// Equal implements [ref.Val].
func (t *table) Equal(other ref.Val) ref.Val { return t.ordinary().Equal(other) }

// Value implements [ref.Val].
func (t *table) Value() any { return t.ordinary().Value() }

// ConvertToNative implements [ref.Val].
func (t *table) ConvertToNative(typeDesc reflect.Type) (any, error) {
	return t.ordinary().ConvertToNative(typeDesc)
}

// ConvertToType implements [ref.Val].
func (t *table) ConvertToType(typeValue ref.Type) ref.Val {
	return t.ordinary().ConvertToType(typeValue)
}

// ordinary returns a CEL map with the same content.
func (t *table) ordinary() traits.Mapper {
	t.makeOrdinary.Do(func() {
		if t.quantities {
			t.ordinaryMap = types.NewDynamicMap(theSharedEnv().adapter, goMap[apiservercel.Quantity](t))
			return
		}
		t.ordinaryMap = types.NewStringInterfaceMap(theSharedEnv().adapter, goMap[any](t))
	})
	return t.ordinaryMap
}

func goMap[V any](t *table) map[string]V {
	m := make(map[string]V, len(t.keys))
	for i, key := range t.keys {
		m[key] = t.values[i].(V)
	}
	return m
}

// closedTable is a map without values for unknown keys.
type closedTable struct{ *table }

// IsZeroValue implements [traits.Zeroer].
func (t closedTable) IsZeroValue() bool { return len(t.keys) == 0 }

// Fold implements [traits.Foldable].
func (t closedTable) Fold(f traits.Folder) {
	for i, key := range t.keys {
		if !f.FoldEntry(key, t.values[i]) {
			return
		}
	}
}

// openTable is a map of maps with an empty map for unknown keys. Only Find returns it; Contains and Size do not
// count it. It is never a zero value, not even without keys.
type openTable struct{ *table }

// Find implements [traits.Mapper].
func (t openTable) Find(key ref.Val) (ref.Val, bool) {
	if value, found := t.table.Find(key); found {
		return value, true
	}
	return theSharedEnv().empty, true
}
