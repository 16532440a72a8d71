// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"context"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

// Goal is what is to be free after some moves.
type Goal int

const (
	// Nodes are to have no pods, but for those that Question.GoesWithNode is true for.
	Nodes Goal = iota
	// WholeDevices are those of nodes that are no part of another one, see simulate.DeviceUse. Nothing may be in use of them.
	// Devices that several nodes reach do not count.
	WholeDevices
)

// Target is a node that can be empty, or a device that can be free.
type Target struct {
	Node   simulate.Node
	Device pools.DeviceID // empty for a node
}

// String is the name of the node, or driver/pool/device.
func (t Target) String() string {
	if t.Device == (pools.DeviceID{}) {
		return t.Node.Name()
	}
	return t.Device.String()
}

// Freeing is an answer of Free.
type Freeing struct {
	// Plan always is Possible. Bound is what each plan costs at least that leaves as much free.
	Plan
	// Freed are the targets that are free after the steps, and were not before. Before and After count all that are free. A
	// pod may take one that was free, so After may be less than Before and Freed together.
	Freed         []Target
	Before, After int
	// Most is how many can be free at most. If it is After, no plan leaves more free.
	Most int
}

// Exact reports whether no plan leaves more free, or as much for less.
func (f *Freeing) Exact() bool { return f.After == f.Most && f.Plan.Exact() }

// Free finds which pods to move so that as many nodes or devices as possible are free. Of such plans it takes one that costs least, and
// of these one that needs the least room. Question.Wanted and Question.Topologies have no meaning. Each pod moves once at most, and each step is possible, as with Find.
//
// A first plan frees one target after the other, those that cost least first. Then sets of pods are looked at in the order of what they
// cost, as far as Question.Sets and Question.Attempts suffice. Freeing.Most is how many could be free if they were looked at no
// further: those that no pod which stays keeps in use, and, of nodes, no more than leave room on the others for the pods that ask for the
// same. Pods that cannot be understood stay. The errors are those of Find.
func Free(ctx context.Context, state *simulate.State, goal Goal, q Question) (*Freeing, error) {
	q.Wanted = nil
	f, err := newFinder(state, q)
	if err != nil {
		return nil, err
	}
	e := &freeing{finder: f, goal: goal, before: make(map[simulate.Node]int), freeBefore: make(map[Target]bool)}
	for _, node := range f.nodes {
		for one := range e.free(state, node) {
			e.before[node]++
			e.freeBefore[one] = true
		}
	}
	if err := e.readTargets(); err != nil {
		return nil, err
	}
	if e.most, err = e.bound(ctx); err != nil {
		return nil, err
	}
	if err := e.oneByOne(ctx); err != nil {
		return nil, err
	}
	if err := e.search(ctx); err != nil {
		return nil, err
	}
	e.result.Before = len(e.freeBefore)
	e.result.After, e.result.Most = e.result.Before+e.gain, e.result.Before+e.most
	return &e.result, nil
}

// freeing looks for the best plan.
type freeing struct {
	*finder
	goal       Goal
	before     map[simulate.Node]int // how many targets of a node are free
	freeBefore map[Target]bool
	targets    []target // that are not free, and may be; the cheapest first
	result     Freeing
	gain       int // of the result: how many more are free than before
	most       int // what the gain can be at most
}
