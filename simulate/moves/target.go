// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/dray-project/dray/simulate"
)

// target is a node or device that is to be free.
type target struct {
	Target
	pods []int // indices in finder.pods: the target is in use as long as one of them stays
	cost float64
}

// free lists the targets of a node that are free.
func (e *freeing) free(state *simulate.State, node simulate.Node) iter.Seq[Target] {
	return func(yield func(Target) bool) {
		if e.goal == Nodes {
			if e.empty(state, node) {
				yield(Target{Node: node})
			}
			return
		}
		for id, use := range state.Devices(node) {
			if use.Whole && use.Free && !yield(Target{node, id}) {
				return
			}
		}
	}
}

func (e *freeing) empty(state *simulate.State, node simulate.Node) bool {
	for pod := range state.Pods(node) {
		if e.GoesWithNode == nil || !e.GoesWithNode(pod) {
			return false
		}
	}
	return true
}

// count counts the targets of a node that are free.
func (e *freeing) count(state *simulate.State, node simulate.Node) int {
	n := 0
	for range e.free(state, node) {
		n++
	}
	return n
}

// readTargets finds the targets that would be free without all movable pods, and which pods use them.
func (e *freeing) readTargets() error {
	on := make(map[simulate.Node][]int)
	for i := range e.pods {
		on[e.pods[i].from] = append(on[e.pods[i].from], i)
	}
	for _, node := range e.nodes {
		list, err := e.targetsOf(node, on[node])
		if err != nil {
			return err
		}
		e.targets = append(e.targets, list...)
	}
	slices.SortStableFunc(e.targets, func(a, b target) int { return cmp.Compare(a.cost, b.cost) })
	return nil
}

// targetsOf finds the targets of a node, given its movable pods.
func (e *freeing) targetsOf(node simulate.Node, pods []int) ([]target, error) {
	if len(pods) == 0 {
		return nil, nil
	}
	found, err := e.freeWithout(node, pods, -1)
	if err != nil {
		return nil, err
	}
	for one := range e.free(e.state, node) {
		delete(found, one)
	}
	var list []target
	for one := range found {
		list = append(list, target{Target: one})
	}
	slices.SortFunc(list, func(a, b target) int { return strings.Compare(a.String(), b.String()) })
	for _, pod := range pods {
		if len(list) == 0 {
			break
		}
		left, err := e.freeWithout(node, pods, pod)
		if err != nil {
			return nil, err
		}
		for i := range list {
			if t := &list[i]; !left[t.Target] {
				t.pods, t.cost = append(t.pods, pod), t.cost+e.pods[pod].cost
			}
		}
	}
	return list, nil
}

// freeWithout lists the targets of a node that are free after the pods but one are evicted. -1 stands for no pod.
func (e *freeing) freeWithout(node simulate.Node, pods []int, stays int) (map[Target]bool, error) {
	e.scratch.Fork()
	defer e.scratch.Revert()
	for _, pod := range pods {
		if pod == stays {
			continue
		}
		if err := e.scratch.Evict(e.pods[pod].Pod); err != nil {
			return nil, err
		}
	}
	found := make(map[Target]bool)
	for one := range e.free(e.scratch.State(), node) {
		found[one] = true
	}
	return found, nil
}

// potential computes how many targets are free after the pods of a set are evicted.
type potential struct {
	keeps [][]int // by pod: targets
	pods  []int   // by target: how many pods keep it in use
	gone  []int   // by target: how many of them are gone
	loose int     // number of targets that are in use only by several pods together
}

func newPotential(pods int, targets []target) *potential {
	p := &potential{keeps: make([][]int, pods), pods: make([]int, len(targets)), gone: make([]int, len(targets))}
	for i := range targets {
		for _, pod := range targets[i].pods {
			p.keeps[pod] = append(p.keeps[pod], i)
		}
		if p.pods[i] = len(targets[i].pods); p.pods[i] == 0 {
			p.loose++
		}
	}
	return p
}

func (p *potential) of(members []int) int {
	can := p.loose
	for _, pod := range members {
		for _, i := range p.keeps[pod] {
			if p.gone[i]++; p.gone[i] == p.pods[i] {
				can++
			}
		}
	}
	for _, pod := range members {
		for _, i := range p.keeps[pod] {
			p.gone[i] = 0
		}
	}
	return can
}
