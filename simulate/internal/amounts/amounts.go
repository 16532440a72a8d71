// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package amounts does arithmetic with CPU, memory and other resources of nodes. Resources have numbers instead
// of names.
package amounts

import (
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/nodefit"
)

// Resources assigns numbers to resources. The resource pods is 0. It is safe for concurrent use.
type Resources struct {
	mu     sync.Mutex
	byName map[corev1.ResourceName]int
}

// NewResources returns numbers for the resource pods only.
func NewResources() *Resources {
	return &Resources{byName: map[corev1.ResourceName]int{corev1.ResourcePods: 0}}
}

// Number returns the number of a resource. A new resource gets the next one.
func (r *Resources) Number(name corev1.ResourceName) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, known := r.byName[name]
	if !known {
		n = len(r.byName)
		r.byName[name] = n
	}
	return n
}

// Name returns the resource with a number, empty if there is none.
func (r *Resources) Name(number int) corev1.ResourceName {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, n := range r.byName {
		if n == number {
			return name
		}
	}
	return ""
}

// NotListed is the amount of a resource that a node does not list.
const NotListed = -1

// Of returns a node's amounts by resource number, nil if the list is empty.
func (r *Resources) Of(list corev1.ResourceList) []int64 {
	if len(list) == 0 {
		return nil
	}
	var all []int64
	for name, quantity := range list {
		n := r.Number(name)
		for len(all) <= n {
			all = append(all, NotListed)
		}
		all[n] = valueOf(name, quantity)
	}
	return all
}

// Demand is an amount of one resource. CPU is in millicores, other resources in their own unit.
type Demand struct {
	Resource int
	Value    int64
}

// Needs returns the requests of a pod, ascending by resource number, without those that devices provide.
func (r *Resources) Needs(pod *corev1.Pod, fromDevices []corev1.ResourceName) []Demand {
	needs := nodefit.Needs(pod)
	list := make([]Demand, 0, len(needs))
	for name, quantity := range needs {
		if !quantity.IsZero() && !slices.Contains(fromDevices, name) {
			list = append(list, Demand{r.Number(name), valueOf(name, quantity)})
		}
	}
	slices.SortFunc(list, func(a, b Demand) int { return cmp.Compare(a.Resource, b.Resource) })
	return list
}

func valueOf(name corev1.ResourceName, quantity resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return quantity.MilliValue()
	}
	return quantity.Value()
}

// Quantity converts an amount to a quantity.
func Quantity(name corev1.ResourceName, value int64) resource.Quantity {
	if name == corev1.ResourceCPU {
		return *resource.NewMilliQuantity(value, resource.DecimalSI)
	}
	return *resource.NewQuantity(value, resource.DecimalSI)
}

// Add returns the amounts in use with the demands added, or subtracted if factor is -1.
func Add(used []int64, demands []Demand, factor int64) []int64 {
	return AddInPlace(slices.Clone(used), demands, factor)
}

// AddInPlace is Add for a list that the caller owns.
func AddInPlace(used []int64, demands []Demand, factor int64) []int64 {
	for _, d := range demands {
		for len(used) <= d.Resource {
			used = append(used, 0)
		}
		used[d.Resource] += factor * d.Value
	}
	return used
}

// Room is how many times the demands fit into what a node has left, at most limit. A node without allocatable
// amounts has no limit. Otherwise a resource that is not listed is zero, except for pods, which nodes often do
// not list.
func Room(allocatable, used []int64, demands []Demand, limit int64) int64 {
	if allocatable == nil {
		return limit
	}
	for _, d := range demands {
		total := int64(NotListed)
		if d.Resource < len(allocatable) {
			total = allocatable[d.Resource]
		}
		if total == NotListed {
			if d.Resource == 0 {
				continue
			}
			return 0
		}
		if d.Resource < len(used) {
			total -= used[d.Resource]
		}
		limit = min(limit, max(0, total/d.Value))
	}
	return limit
}

// WithoutZeros removes trailing zeros, so that lists can be compared after a subtraction.
func WithoutZeros(list []int64) []int64 {
	for len(list) > 0 && list[len(list)-1] == 0 {
		list = list[:len(list)-1]
	}
	return list
}
