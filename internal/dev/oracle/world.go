// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/alloctest"
)

// world is what the rules know about a case.
type world struct {
	c    *alloctest.Case
	node *corev1.Node
	// devices that the node can use, in first-fit order
	devices []*device
	// unusable says why devices of some pool cannot be known; empty if all can.
	unusable  string
	exclusive map[deviceID]bool
	shares    map[deviceID]amounts // devices with shares, and what these consume

	selected map[selection]bool
}

type deviceID struct{ driver, pool, name string }

func (id deviceID) String() string { return id.driver + "/" + id.pool + "/" + id.name }

// amounts are quantities by the name of a capacity or counter.
type amounts map[string]resource.Quantity

func (a amounts) add(name string, q resource.Quantity) {
	sum := a[name].DeepCopy()
	sum.Add(q)
	a[name] = sum
}

type device struct {
	id    deviceID
	api   *resourceapi.Device
	slice *resourceapi.ResourceSlice
	pool  *pool
}

// shared tells whether the device can be allocated several times.
func (w *world) shared(d *device) bool {
	return w.c.Features.ConsumableCapacity && ptr.Deref(d.api.AllowMultipleAllocations, false)
}

func newWorld(c *alloctest.Case) (*world, error) {
	w := &world{
		c: c, exclusive: make(map[deviceID]bool), shares: make(map[deviceID]amounts),
		selected: make(map[selection]bool),
	}
	i := slices.IndexFunc(c.Nodes, func(n *corev1.Node) bool { return n.Name == c.Node })
	if i < 0 {
		return nil, fmt.Errorf("node %s is not in the case", c.Node)
	}
	w.node = c.Nodes[i]
	for _, p := range w.pools() {
		w.addPool(p)
	}
	for _, claim := range c.Allocated {
		w.addUse(claim.Status.Allocation)
	}
	return w, nil
}

func (w *world) addPool(p *pool) {
	if reason := p.problem(w); reason != "" {
		w.unusable = fmt.Sprintf("pool %s/%s: %s", p.driver, p.name, reason)
		return
	}
	for _, slice := range p.onNode {
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			if ptr.Deref(slice.Spec.PerDeviceNodeSelection, false) && !w.selects(d.NodeName, d.AllNodes, d.NodeSelector) {
				continue
			}
			w.devices = append(w.devices, &device{deviceID{p.driver, p.name, d.Name}, d, slice, p})
		}
	}
}

func (w *world) addUse(allocation *resourceapi.AllocationResult) {
	if allocation == nil {
		return
	}
	for _, result := range allocation.Devices.Results {
		id := deviceID{result.Driver, result.Pool, result.Device}
		switch {
		case ptr.Deref(result.AdminAccess, false):
		case result.ShareID == nil || !w.c.Features.ConsumableCapacity:
			w.exclusive[id] = true
		default:
			if w.shares[id] == nil {
				w.shares[id] = make(amounts)
			}
			for name, consumed := range result.ConsumedCapacity {
				w.shares[id].add(string(name), consumed)
			}
		}
	}
}

func (w *world) inUse(id deviceID) bool { return w.exclusive[id] || w.shares[id] != nil }
