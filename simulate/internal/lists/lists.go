// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lists applies changes to lists of API objects, and indexes names.
package lists

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Object is a pointer to an API object.
type Object interface {
	comparable
	metav1.Object
}

// Key returns namespace and name of an object.
func Key[T metav1.Object](o T) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// LastOfEach returns the list without objects that a later one of the same name replaces.
func LastOfEach[T Object](list []T) []T {
	if len(list) < 2 {
		return slices.Clone(list)
	}
	last := make(map[types.NamespacedName]T)
	for _, o := range list {
		last[Key(o)] = o
	}
	return slices.DeleteFunc(slices.Clone(list), func(o T) bool { return last[Key(o)] != o })
}

// Change lists deleted objects, and created or updated ones.
type Change[T Object] struct{ Gone, Set []T }

// After applies changes to a list, the oldest first. An updated object keeps its position, unless stays is
// false for it. New objects are appended. A nil stays means that all keep their position.
func After[T Object](list []T, changes []Change[T], stays func(before, after T) bool) []T {
	touched := make(map[types.NamespacedName]bool)
	for _, c := range changes {
		for _, o := range slices.Concat(c.Gone, c.Set) {
			touched[Key(o)] = true
		}
	}
	if len(touched) == 0 {
		return list
	}
	var none T
	list = slices.Clone(list)
	at := make(map[types.NamespacedName]int)
	for i, o := range list {
		if key := Key(o); touched[key] {
			if before, twice := at[key]; twice {
				list[before] = none
			}
			at[key] = i
		}
	}
	for _, c := range changes {
		for _, o := range c.Gone {
			if i, found := at[Key(o)]; found {
				list[i] = none
				delete(at, Key(o))
			}
		}
		for _, o := range c.Set {
			i, found := at[Key(o)]
			if found && (stays == nil || stays(list[i], o)) {
				list[i] = o
				continue
			}
			if found {
				list[i] = none
			}
			at[Key(o)] = len(list)
			list = append(list, o)
		}
	}
	return slices.DeleteFunc(list, func(o T) bool { return o == none })
}
