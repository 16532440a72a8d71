// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/pools"
)

// turnBack places one pod after the other and turns back: first to devices of the node where the last pod took one that other nodes can
// reach, too, then to other devices in place of those that it took, then to its later nodes and alternatives, and so on with
// the pods before. It is for devices that several nodes can reach, where the pods of one node are no problem by
// themselves, for admin access, which keeps nothing from other pods, and for groups that may leave out some of the pods that share a claim.
func (a *asker) turnBack() ([]Place, error) {
	t := &turning{asker: a, places: a.unplaced(), best: a.unplaced(), end: min(a.Budget, a.spent+turnSteps)}
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
	// end is what may be spent.
	end int64
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

// pod places the pods from the given one on. It is true if as many as are needed have a place.
func (t *turning) pod(i int, w *walk, placed int) (bool, error) {
	if placed > t.most {
		t.most, t.best = placed, slices.Clone(t.places)
	}
	if i == len(t.Pods) || t.spent > t.end || placed+len(t.Pods)-i < t.Min {
		return placed >= t.Min, nil
	}
	for c := range t.choices[i] {
		for n := range t.Nodes {
			v := t.variant(i, n)
			if v < 0 || !t.Room(n, append(slices.Clip(w.on[n]), i)) {
				continue
			}
			try := turn{pod: i, node: n, variant: v, choice: c, placed: placed}
			claims, done, err := t.place(try, w, nil)
			if err == nil && !done && t.hasCommon(claims) {
				_, done, err = t.place(try, w, t.common)
			}
			if err == nil && !done {
				done, err = t.others(try, w, claims, nil)
			}
			if done || err != nil {
				return done, err
			}
		}
	}
	t.places[i] = Place{Node: -1}
	return t.pod(i+1, w, placed)
}

// turn is one way to place a pod, when so many others are placed.
type turn struct{ pod, node, variant, choice, placed int }

const (
	// mostWithheld is how many devices are kept from a pod at once.
	mostWithheld = 2
	// turnCost is in steps what it costs to place a pod in one more way.
	turnCost = 20
	// turnSteps is what may be spent on that. It is no proof then.
	turnSteps = 100_000
)

// others places a pod with other devices than those that it was given: without each of these in turn.
func (t *turning) others(try turn, w *walk, given []*resourceapi.ResourceClaim, withheld []resourceapi.DeviceRequestAllocationResult) (bool, error) {
	if len(withheld) == mostWithheld {
		return false, nil
	}
	for _, claim := range given {
		for _, result := range claim.Status.Allocation.Devices.Results {
			if ptr.Deref(result.AdminAccess, false) || result.ShareID != nil {
				continue
			}
			longer := append(slices.Clip(withheld), resourceapi.DeviceRequestAllocationResult{Driver: result.Driver, Pool: result.Pool, Device: result.Device})
			claims, done, err := t.place(try, w, longer)
			if err == nil && !done && t.spent <= t.end {
				done, err = t.others(try, w, claims, longer)
			}
			if done || err != nil {
				return done, err
			}
		}
	}
	return false, nil
}

// place puts a pod on a node if it fits without some devices, and then the pods after it. It returns what the pod was given.
func (t *turning) place(try turn, w *walk, withheld []resourceapi.DeviceRequestAllocationResult) (claims []*resourceapi.ResourceClaim, done bool, err error) {
	t.spent += turnCost
	next := &walk{asker: t.asker, state: w.state, on: slices.Clone(w.on), reach: maps.Clone(w.reach)}
	next.on[try.node] = slices.Clip(next.on[try.node])
	if len(withheld) > 0 {
		next.seen = withheldFrom(w.state, withheld)
	}
	key := "" // what is asked for depends on which shared claims are allocated
	if len(t.units) == len(t.Pods) {
		key = fmt.Sprint("turn ", try.pod, " ", try.variant, " ", try.choice)
	}
	claims, fits, err := next.placeClaims(try.pod, try.node, key, t.Pods[try.pod].Variants[try.variant], t.choices[try.pod][try.choice])
	if err != nil || !fits {
		return nil, false, err
	}
	t.places[try.pod] = Place{Node: try.node, Claims: claims}
	done, err = t.pod(try.pod+1, next, try.placed+1)
	return claims, done, err
}

// withheldFrom is a state in which no request gets some devices, though they take nothing of counters.
func withheldFrom(state *pools.State, devices []resourceapi.DeviceRequestAllocationResult) *pools.State {
	s := (*cluster.State)(state)
	var changed []*pool.Usage
	for _, d := range devices {
		p := s.Snapshot().Pool(pool.ID{Driver: d.Driver, Name: d.Pool})
		if p == nil {
			continue
		}
		at := slices.IndexFunc(changed, func(u *pool.Usage) bool { return u.Pool() == p })
		if at < 0 {
			at, changed = len(changed), append(changed, s.Pool(p))
		}
		edit, namesakes := changed[at].Edit(), p.Lookup(d.Device)
		if !slices.ContainsFunc(namesakes, func(i pool.DeviceIndex) bool { return edit.InUse(i) || edit.Shared(i) }) {
			edit.Set(namesakes, pool.Use{Withheld: true})
		}
		changed[at] = edit.Done()
	}
	return (*pools.State)(s.With(changed))
}
