// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// oneByOne places one pod after the other, each on the first node that takes it.
func (a *asker) oneByOne() (*Result, error) {
	w := &sequence{asker: a, state: a.State, podsOn: make([][]int, len(a.Nodes)), reach: make(map[claimKey]*selector)}
	places, start := a.unplaced(), make([]int, len(a.kinds))
	placed := 0
	for i := range a.Pods {
		if len(a.Pods)-i+placed < a.Min {
			break
		}
		// A node that refused a pod has no room for a later pod of its kind.
		from, k := 0, a.kindOf(i)
		if k >= 0 {
			from = start[k]
		}
		for n := from; n < len(a.Nodes) && places[i].Node < 0; n++ {
			claims, fits, err := w.place(i, n)
			if err != nil {
				return nil, err
			}
			if fits {
				places[i] = Place{Node: n, Claims: claims}
				placed++
			}
		}
		if k >= 0 && places[i].Node >= 0 {
			start[k] = places[i].Node
		} else if k >= 0 {
			start[k] = len(a.Nodes)
		}
	}
	verdict := allocator.Satisfiable
	if placed < a.Min {
		if verdict = allocator.NotSatisfiable; a.doubt {
			verdict = allocator.NotDecided
		}
	}
	r := a.result(verdict, places)
	r.OneByOne = true
	return r, nil
}

// kindOf is the kind of a pod, below zero if the pod shares claims with others. Such a pod goes where these claims are, so its place says
// nothing of those of others.
func (a *asker) kindOf(pod int) int {
	u := &a.units[a.unitOf[pod]]
	if len(u.pods) > 1 {
		return -1
	}
	return u.kind
}

// sequence places pods one after the other, and keeps the state after each.
type sequence struct {
	*asker
	state *pools.State
	// searchState is a state with more devices in use, for the search only. Nil means state.
	searchState *pools.State
	podsOn      [][]int
	// reach is where claims that were allocated during the walk can be used. A nil entry means everywhere.
	reach map[claimKey]*selector
}

// place puts a pod on a node if it fits, and returns the claims that were allocated for it.
func (w *sequence) place(pod, node int) ([]*resourceapi.ResourceClaim, bool, error) {
	v := w.variant(pod, node)
	if v < 0 || !w.Room(node, append(w.podsOn[node], pod)) {
		return nil, false, nil
	}
	key := "pod " + w.Pods[pod].Kind + " " + strconv.Itoa(v)
	if w.Pods[pod].Kind == "" || len(w.units) < len(w.Pods) {
		key = "" // do not cache the problem, as it will not be asked again
	}
	return w.placeClaims(pod, node, key, w.Pods[pod].Variants[v], nil)
}

// placeClaims puts a pod with these claims on a node. The key identifies their problem, see problem.
func (w *sequence) placeClaims(pod, node int, key string, claims []*resourceapi.ResourceClaim, chosen choice) ([]*resourceapi.ResourceClaim, bool, error) {
	var open, asked []*resourceapi.ResourceClaim
	for i, pinned := range chosen.pin(claims) {
		reach, allocated := w.reach[keyOf(pinned)]
		if !allocated {
			open, asked = append(open, claims[i]), append(asked, pinned)
		} else if reach != nil && !reach.Match(w.Nodes[node]) {
			return nil, false, nil
		}
	}
	var made []*resourceapi.ResourceClaim
	if len(open) > 0 {
		problem, err := w.problem(key, asked)
		if err != nil {
			return nil, false, err
		}
		found, fits, err := w.feasible(problem, cmp.Or(w.searchState, w.state), node)
		if err != nil || !fits {
			return nil, false, err
		}
		if made, err = w.take(open, found.Results()); err != nil {
			return nil, false, err
		}
	}
	w.podsOn[node] = append(w.podsOn[node], pod)
	return made, true, nil
}

// take assumes the results for the claims.
func (w *sequence) take(claims []*resourceapi.ResourceClaim, results []resourceapi.AllocationResult) ([]*resourceapi.ResourceClaim, error) {
	made := make([]*resourceapi.ResourceClaim, len(claims))
	for i, claim := range claims {
		copied := *claim
		copied.Status.Allocation = &results[i]
		made[i] = &copied
		var err error
		if w.state, err = w.state.Assume(&copied); err != nil {
			return nil, err
		}
		var reach *selector
		if of := results[i].NodeSelector; of != nil {
			if reach, err = nodeaffinity.NewNodeSelector(of); err != nil {
				return nil, fmt.Errorf("claim %s: node selector of the allocation: %w", keyOf(claim), err)
			}
		}
		w.reach[keyOf(claim)] = reach
	}
	return made, nil
}

// problem compiles claims, and caches the problem by a key that is not empty.
func (a *asker) problem(key string, claims []*resourceapi.ResourceClaim) (*allocator.Problem, error) {
	if known := a.problems[key]; known != nil && key != "" {
		return known, nil
	}
	made, err := a.Compile(claims)
	if err == nil && key != "" {
		a.problems[key] = made
	}
	return made, err
}

// feasible asks the allocator. The error is that of the context.
func (a *asker) feasible(problem *allocator.Problem, state *pools.State, node int) (allocator.Feasibility, bool, error) {
	found, err := problem.Feasible(a.context, state, a.Nodes[node])
	a.spent += 1 + found.Stats().Steps
	if err != nil {
		return found, false, a.note(err)
	}
	a.doubt = a.doubt || found.Verdict() == allocator.NotDecided
	return found, found.Verdict() == allocator.Satisfiable, nil
}

type (
	claimKey = types.NamespacedName
	selector = nodeaffinity.NodeSelector
)

func keyOf(claim *resourceapi.ResourceClaim) claimKey {
	return claimKey{Namespace: claim.Namespace, Name: claim.Name}
}

// nodesShareDevices reports whether devices of different nodes affect each other: several nodes may reach a device, or
// devices of different nodes draw on common counters.
func nodesShareDevices(state *pools.State, nodes []*corev1.Node) bool {
	if len(nodes) < 2 {
		return false
	}
	for pool := range state.Snapshot().Pools() {
		node := ""
		for slice := range pool.Slices() {
			switch of := ptr.Deref(slice.Spec.NodeName, ""); {
			case len(slice.Spec.Devices) == 0:
			case of == "" || node != "" && node != of:
				return true
			default:
				node = of
			}
		}
	}
	return false
}
