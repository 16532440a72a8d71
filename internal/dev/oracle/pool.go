// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"
)

// pool is a pool at its highest generation.
type pool struct {
	driver, name string
	onNode       []*resourceapi.ResourceSlice // device slices that reach the node, by name
	all          []*resourceapi.ResourceSlice // onNode first, then the others, with counter sets
}

// pools returns the pools with a slice that reaches the node, in first-fit order.
func (w *world) pools() []*pool {
	newest := make(map[[2]string]int64)
	for _, slice := range w.c.Slices {
		key := [2]string{slice.Spec.Driver, slice.Spec.Pool.Name}
		newest[key] = max(newest[key], slice.Spec.Pool.Generation)
	}
	var pools []*pool
	for key, generation := range newest {
		if p := w.pool(key, generation); p != nil {
			pools = append(pools, p)
		}
	}
	slices.SortFunc(pools, func(a, b *pool) int {
		return cmp.Or(compareBool(a.binding(), b.binding()), cmp.Compare(a.driver, b.driver), cmp.Compare(a.name, b.name))
	})
	return pools
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (w *world) pool(key [2]string, generation int64) *pool {
	p := &pool{driver: key[0], name: key[1]}
	var elsewhere []*resourceapi.ResourceSlice
	reached := false
	for _, slice := range w.c.Slices {
		spec := &slice.Spec
		if spec.Driver != p.driver || spec.Pool.Name != p.name || spec.Pool.Generation != generation {
			continue
		}
		if !w.c.Features.CompatibilityGroups && declaresGroups(slice) {
			continue
		}
		here := w.reaches(slice)
		reached = reached || here
		if here && len(spec.SharedCounters) == 0 {
			p.onNode = append(p.onNode, slice)
		} else {
			elsewhere = append(elsewhere, slice)
		}
	}
	if !reached {
		return nil
	}
	slices.SortStableFunc(p.onNode, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	p.all = slices.Concat(p.onNode, elsewhere)
	return p
}

func (p *pool) binding() bool {
	return slices.ContainsFunc(p.onNode, func(slice *resourceapi.ResourceSlice) bool {
		return slices.ContainsFunc(slice.Spec.Devices, func(d resourceapi.Device) bool { return d.BindingConditions != nil })
	})
}

func declaresGroups(slice *resourceapi.ResourceSlice) bool {
	return slices.ContainsFunc(slice.Spec.Devices, func(d resourceapi.Device) bool {
		return slices.ContainsFunc(d.ConsumesCounters, func(c resourceapi.DeviceCounterConsumption) bool {
			return len(c.CompatibilityGroups) > 0
		})
	})
}

// reaches tells whether the node sees the slice at all.
func (w *world) reaches(slice *resourceapi.ResourceSlice) bool {
	spec := &slice.Spec
	if !w.c.Features.PartitionableDevices && (spec.PerDeviceNodeSelection != nil || len(spec.SharedCounters) > 0) {
		return false
	}
	if !ptr.Deref(spec.PerDeviceNodeSelection, false) {
		return w.selects(spec.NodeName, spec.AllNodes, spec.NodeSelector)
	}
	return slices.ContainsFunc(spec.Devices, func(d resourceapi.Device) bool {
		return w.selects(d.NodeName, d.AllNodes, d.NodeSelector)
	})
}

func (w *world) selects(name *string, all *bool, selector *corev1.NodeSelector) bool {
	if name != nil {
		return *name == w.node.Name
	}
	if ptr.Deref(all, false) {
		return true
	}
	if selector == nil {
		return false
	}
	parsed, err := nodeaffinity.NewNodeSelector(selector)
	return err == nil && parsed.Match(w.node)
}

// problem says why nothing can be allocated from the pool; empty if something can.
func (p *pool) problem(w *world) string {
	for _, slice := range p.all {
		if slice.Spec.Pool.ResourceSliceCount != int64(len(p.all)) {
			return "incomplete"
		}
	}
	names := make(map[string]bool)
	for _, slice := range p.onNode {
		for _, d := range slice.Spec.Devices {
			if names[d.Name] {
				return "duplicate device " + d.Name
			}
			names[d.Name] = true
		}
	}
	if !w.c.Features.PartitionableDevices {
		return ""
	}
	return p.counterProblem()
}

func (p *pool) counterProblem() string {
	sets := make(map[string]resourceapi.CounterSet)
	for _, slice := range p.all {
		for _, set := range slice.Spec.SharedCounters {
			if _, ok := sets[set.Name]; ok {
				return "duplicate counter set " + set.Name
			}
			sets[set.Name] = set
		}
	}
	for _, slice := range p.all {
		for _, d := range slice.Spec.Devices {
			for _, consumption := range d.ConsumesCounters {
				for name := range consumption.Counters {
					if _, ok := sets[consumption.CounterSet].Counters[name]; !ok {
						return "unknown counter " + consumption.CounterSet + "/" + name
					}
				}
				if _, ok := sets[consumption.CounterSet]; !ok {
					return "unknown counter set " + consumption.CounterSet
				}
			}
		}
	}
	return ""
}
