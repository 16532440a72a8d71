// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package amounts counts CPU, memory and the other resources of nodes, with a number for each resource in place of its name.
package amounts

import (
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/nodefit"
)

// Resources gives each resource a number. That of pods is 0. It is safe for concurrent use.
type Resources struct {
	mu     sync.Mutex
	byName map[corev1.ResourceName]int
}

// NewResources knows the resource pods.
func NewResources() *Resources {
	return &Resources{byName: map[corev1.ResourceName]int{corev1.ResourcePods: 0}}
}

// Number is that of a resource, which it gets the first time.
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

// Name is the resource with a number, empty if none has it.
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

// Of returns what a node has of each resource by number, nil if the list is empty.
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

// Demand is how much of a resource is asked for, by number. CPU is in thousandths.
type Demand struct {
	Resource int
	Value    int64
}

// Needs lists what a pod asks of the resources of a node, ascending by number, but for those that devices provide.
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

// Quantity is an amount as a node would list it.
func Quantity(name corev1.ResourceName, value int64) resource.Quantity {
	if name == corev1.ResourceCPU {
		return *resource.NewMilliQuantity(value, resource.DecimalSI)
	}
	return *resource.NewQuantity(value, resource.DecimalSI)
}

// Add returns what is used with the demands added, or with factor -1 taken away.
func Add(used []int64, demands []Demand, factor int64) []int64 {
	return AddInPlace(slices.Clone(used), demands, factor)
}

// AddInPlace is Add for a list that nobody else has.
func AddInPlace(used []int64, demands []Demand, factor int64) []int64 {
	for _, d := range demands {
		for len(used) <= d.Resource {
			used = append(used, 0)
		}
		used[d.Resource] += factor * d.Value
	}
	return used
}

// Room is how many times the demands fit beside what is used of what a node has, at most limit. A node without a list has room for
// all; one with a list has nothing of a resource that is not in it, but for pods, of which the number is often left out.
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

// WithoutZeros is a list of amounts as it was before the last ones were added.
func WithoutZeros(list []int64) []int64 {
	for len(list) > 0 && list[len(list)-1] == 0 {
		list = list[:len(list)-1]
	}
	return list
}
