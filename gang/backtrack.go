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

// backtrack places one pod after the other, with backtracking. For each way to place a pod it tries, in this
// order: the first devices; without the devices that several nodes can reach, if the pod got one; and without
// each of the devices that it got. Then it continues with later nodes and alternatives, and with the pods
// before.
//
// It is for devices that several nodes can reach, where the pods of a node do not form a separate problem. It is also for admin access, which excludes no other pods. And it is for groups that may leave out some of
// the pods that share a claim.
func (a *asker) backtrack() ([]Place, error) {
	t := &backtracker{asker: a, places: a.unplaced(), best: a.unplaced(), limit: min(a.Budget, a.spent+backtrackSteps)}
	for i := range a.Pods {
		t.choices = append(t.choices, a.choices([]int{i}))
	}
	w := &sequence{asker: a, state: a.State, podsOn: make([][]int, len(a.Nodes)), reach: make(map[claimKey]*selector)}
	_, err := t.withCommon().pod(0, w, 0)
	return t.best, err
}

type backtracker struct {
	*asker
	choices [][]choice
	places  []Place
	best    []Place
	most    int
	// limit bounds asker.spent.
	limit int64
	// common are the devices that several nodes may reach.
	common []resourceapi.DeviceRequestAllocationResult
}

// withCommon finds the devices that several nodes may reach, without those that allow several allocations.
func (t *backtracker) withCommon() *backtracker {
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

// hasCommon reports whether claims have one of the common devices.
func (t *backtracker) hasCommon(claims []*resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(claims, func(claim *resourceapi.ResourceClaim) bool {
		return slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
			return slices.ContainsFunc(t.common, func(c resourceapi.DeviceRequestAllocationResult) bool {
				return r.Driver == c.Driver && r.Pool == c.Pool && r.Device == c.Device
			})
		})
	})
}

// pod places the pods from i on. It is true if as many as needed have a place.
func (t *backtracker) pod(i int, w *sequence, placed int) (bool, error) {
	if placed > t.most {
		t.most, t.best = placed, slices.Clone(t.places)
	}
	if i == len(t.Pods) || t.spent > t.limit || placed+len(t.Pods)-i < t.Min {
		return placed >= t.Min, nil
	}
	for c := range t.choices[i] {
		for n := range t.Nodes {
			v := t.variant(i, n)
			if v < 0 || !t.Room(n, append(slices.Clip(w.podsOn[n]), i)) {
				continue
			}
			try := attempt{pod: i, node: n, variant: v, choice: c, placed: placed}
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

// attempt is one way to place a pod. placed is the number of pods placed before.
type attempt struct{ pod, node, variant, choice, placed int }

const (
	// mostWithheld bounds the devices that are withheld from a pod together.
	mostWithheld = 2
	// attemptCost is the cost of placing a pod in one more way, in steps.
	attemptCost = 20
	// backtrackSteps bounds the steps of backtrack. If they are spent, its result is no proof.
	backtrackSteps = 100_000
)

// others places a pod without each of the devices that it was given, in turn.
func (t *backtracker) others(try attempt, w *sequence, given []*resourceapi.ResourceClaim, withheld []resourceapi.DeviceRequestAllocationResult) (bool, error) {
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
			if err == nil && !done && t.spent <= t.limit {
				done, err = t.others(try, w, claims, longer)
			}
			if done || err != nil {
				return done, err
			}
		}
	}
	return false, nil
}

// place puts a pod on a node if it fits without the withheld devices, and then the pods after it. It returns
// the pod's claims.
func (t *backtracker) place(try attempt, w *sequence, withheld []resourceapi.DeviceRequestAllocationResult) (claims []*resourceapi.ResourceClaim, done bool, err error) {
	t.spent += attemptCost
	next := &sequence{asker: t.asker, state: w.state, podsOn: slices.Clone(w.podsOn), reach: maps.Clone(w.reach)}
	next.podsOn[try.node] = slices.Clip(next.podsOn[try.node])
	if len(withheld) > 0 {
		next.searchState = withheldFrom(w.state, withheld)
	}
	key := "" // the problem depends on which shared claims are allocated
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

// withheldFrom returns a state in which no request gets some devices, though they take nothing of counters.
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
