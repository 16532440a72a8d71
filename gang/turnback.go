// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/pools"
)

// turnBack places one pod after the other and turns back, first to other alternatives of the pods before, then to devices
// of the node instead of those that other nodes can reach, too, then to a later node. It does not turn back to other
// devices beyond that. It is for devices that several nodes can reach, where the pods of one node are no problem by
// themselves, and for admin access, which keeps nothing from other pods.
func (a *asker) turnBack() ([]Place, error) {
	t := &turning{asker: a, places: a.unplaced(), best: a.unplaced()}
	for i := range a.Pods {
		t.choices = append(t.choices, a.choices([]int{i}))
	}
	w := &walk{asker: a, state: a.State, on: make([][]int, len(a.Nodes)), reach: make(map[claimKey]*selector)}
	_, err := t.withCommon().pod(0, w, 0)
	return t.best, err
}

type turning struct {
	*asker
	choices [][]choice
	places  []Place
	best    []Place
	most    int
	// common are the devices that several nodes may reach.
	common []resourceapi.DeviceRequestAllocationResult
}

// withCommon finds the devices that several nodes may reach, but for those that allow several allocations.
func (t *turning) withCommon() *turning {
	for pool := range t.State.Snapshot().Pools() {
		usage := t.State.Pool(pool)
		for device := range pool.Devices() {
			if device.Slice().Spec.NodeName == nil && usage.Obtainable(device) {
				t.common = append(t.common, resourceapi.DeviceRequestAllocationResult{Driver: pool.ID().Driver, Pool: pool.ID().Name, Device: device.Object().Name})
			}
		}
	}
	return t
}

// hasCommon reports whether claims have one of these devices.
func (t *turning) hasCommon(claims []*resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(claims, func(claim *resourceapi.ResourceClaim) bool {
		return slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
			return slices.ContainsFunc(t.common, func(c resourceapi.DeviceRequestAllocationResult) bool {
				return r.Driver == c.Driver && r.Pool == c.Pool && r.Device == c.Device
			})
		})
	})
}

// withoutCommon is a state in which these devices are in use.
func (t *turning) withoutCommon(state *pools.State) (*pools.State, error) {
	claim := &resourceapi.ResourceClaim{Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}}}
	claim.Name, claim.UID = "devices that several nodes may reach", "common"
	claim.Status.Allocation.Devices.Results = t.common
	return state.Assume(claim)
}

// pod places the pods from the given one on. It is true if as many as are needed have a place.
func (t *turning) pod(i int, w *walk, placed int) (bool, error) {
	if placed > t.most {
		t.most, t.best = placed, slices.Clone(t.places)
	}
	if i == len(t.Pods) || t.exhausted() || placed+len(t.Pods)-i < t.Min {
		return placed >= t.Min, nil
	}
	for _, chosen := range t.choices[i] {
		for n := range t.Nodes {
			v := t.variant(i, n)
			if v < 0 || !t.Room(n, append(slices.Clip(w.on[n]), i)) {
				continue
			}
			claims, done, err := t.place(i, n, w, chosen, placed, false)
			if err == nil && !done && t.hasCommon(claims) {
				_, done, err = t.place(i, n, w, chosen, placed, true)
			}
			if done || err != nil {
				return done, err
			}
		}
	}
	t.places[i] = Place{Node: -1}
	return t.pod(i+1, w, placed)
}

// place puts a pod on a node if it fits, and then the pods after it. It returns what the pod was given. With ofItsOwn, the
// pod does without devices that several nodes may reach.
func (t *turning) place(i, n int, w *walk, chosen choice, placed int, ofItsOwn bool) (claims []*resourceapi.ResourceClaim, done bool, err error) {
	next := &walk{asker: t.asker, state: w.state, on: slices.Clone(w.on), reach: maps.Clone(w.reach)}
	next.on[n] = slices.Clip(next.on[n])
	if ofItsOwn {
		if next.seen, err = t.withoutCommon(w.state); err != nil {
			return nil, false, err
		}
	}
	claims, fits, err := next.placeClaims(i, n, "", t.Pods[i].Variants[t.variant(i, n)], chosen)
	if err != nil || !fits {
		return nil, false, err
	}
	next.seen = nil
	t.places[i] = Place{Node: n, Claims: claims}
	done, err = t.pod(i+1, next, placed+1)
	return claims, done, err
}
