// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
)

// DefaultBudget is the number of steps that a question may take: those of its searches, and one for each
// question about a node.
const DefaultBudget = 2 * allocator.DefaultBudget

// Pod is a pod that needs a place.
type Pod struct {
	// Kind is equal for interchangeable pods: they have equal claims except for names, and equal results of
	// Variant and Room. A pod with an empty kind is unlike any other.
	Kind string
	// Variants are lists of claims that are to be allocated for the pod, in order. A pod without claims has one
	// empty list. Claims of one namespace and name are one claim, which the pods share.
	Variants [][]*resourceapi.ResourceClaim
	// Variant is the position of the list that applies on a node, below zero if the pod cannot run there. A nil
	// function means the first list on all nodes.
	Variant func(node int) int
}

// Question asks for places for all pods. Ask does not modify it.
type Question struct {
	// Compile makes a problem of claims. All problems must be of one allocator.
	Compile func(claims []*resourceapi.ResourceClaim) (*allocator.Problem, error)
	State   *pools.State
	// Nodes are in the order of preference.
	Nodes []*corev1.Node
	// Pods are in the order of placement.
	Pods []Pod
	// Min is the number of pods that need a place; further pods get one if possible. Zero means all. Pods of
	// the group that already run are not in Pods: the State contains what they have.
	Min int
	// Room reports whether a node has room for some pods together, except for devices and what Variant says. A
	// pod may occur several times, in place of others of its kind. If it is true for some pods, it must be true
	// for any part of them. Nil means that there is always room.
	Room func(node int, pods []int) bool
	// Group has the constraints across the devices of all pods. Values are tried in the order of nodes with
	// such devices. The first values with which all pods have a place are taken, or else those with which most
	// pods have one.
	Group extension.Group
	// Held are allocated claims of pods of the group that already have a place. The constraints of Group
	// include their devices.
	Held []*resourceapi.ResourceClaim
	// Budget is a number of steps. Zero or less is DefaultBudget.
	Budget int64
	// OneByOne only places one pod after the other, whether all get a place or not.
	OneByOne bool
	// Together skips the attempt to place one pod after the other.
	Together bool
}

// Place is where a pod is placed.
type Place struct {
	// Node is the position of the node, below zero if the pod has no place.
	Node int
	// Claims are those that were allocated for the pod, with their allocation. A shared claim is listed with
	// the first pod that has it.
	Claims []*resourceapi.ResourceClaim
}

// Result is the answer. It refers to objects of the question.
type Result struct {
	// Verdict tells whether as many pods as needed have a place. NotDecided means that a budget ended the
	// search, that of the question or that of the allocator on a node.
	Verdict allocator.Verdict
	// Exact says that a verdict of NotSatisfiable is a proof. Otherwise there may be a solution that was not
	// considered, for one of three reasons. Devices that several nodes can reach were chosen node by node.
	// Claims on one node excluded each other from devices that admin access would give to both. Or pods that
	// share claims were placed or left out together only.
	Exact bool
	// OneByOne says that the pods were placed one after the other.
	OneByOne bool
	// Places are by pod. If the verdict is not Satisfiable, they are the most that were found.
	Places []Place
	// Domain has the values that the devices have in common, by constraint: those of Constraints, of
	// MaxDistinct, and of the preferences that are satisfied. Without enough places, it is the domain with the
	// most places.
	Domain []Domain
	// Steps is the part of the budget that was spent.
	Steps int64
	// Err is the first error about a node. Nodes with an error take no pods.
	Err error
}

// Placed is the number of pods with a place.
func (r *Result) Placed() int {
	n := 0
	for i := range r.Places {
		if r.Places[i].Node >= 0 {
			n++
		}
	}
	return n
}

// Ask answers a question. The error is that of the context, or says that claims cannot be allocated on any
// node; the result is nil then.
func Ask(ctx context.Context, q Question) (*Result, error) {
	q.normalise()
	for i := range q.Pods {
		if len(q.Pods[i].Variants) == 0 {
			return nil, fmt.Errorf("pod %d has no list of claims", i)
		}
	}
	if !q.Group.IsZero() {
		return askAcross(ctx, q)
	}
	return ask(ctx, q)
}

// normalise fills in defaults.
func (q *Question) normalise() {
	if q.Min <= 0 || q.Min > len(q.Pods) {
		q.Min = len(q.Pods)
	}
	if q.Budget <= 0 {
		q.Budget = DefaultBudget
	}
	if q.Room == nil {
		q.Room = func(int, []int) bool { return true }
	}
}

// Within is the question about some of its nodes, by position, in that order.
func (q Question) Within(nodes []int) Question {
	all, of := q.Nodes, q.Room
	q.Nodes = make([]*corev1.Node, len(nodes))
	for i, n := range nodes {
		q.Nodes[i] = all[n]
	}
	q.Pods = slices.Clone(q.Pods)
	for i := range q.Pods {
		if variant := q.Pods[i].Variant; variant != nil {
			q.Pods[i].Variant = func(node int) int { return variant(nodes[node]) }
		}
	}
	if of != nil {
		q.Room = func(node int, pods []int) bool { return of(nodes[node], pods) }
	}
	return q
}

// ask answers a question without constraints across pods.
func ask(ctx context.Context, q Question) (*Result, error) {
	a := &asker{Question: q, context: ctx, problems: make(map[string]*allocator.Problem)}
	a.divide()
	if !q.Together {
		r, err := a.oneByOne()
		if err != nil || r.Verdict == allocator.Satisfiable || q.OneByOne {
			return r, err
		}
		a.most = r.Places
	}
	return a.together()
}

// asker is the state of a question that is being answered.
type asker struct {
	Question
	context context.Context
	units   []unit
	unitOf  []int // position of the unit by pod
	kinds   []kind
	// problems caches compiled problems, by the claims on a node.
	problems map[string]*allocator.Problem
	spent    int64
	// doubt is set if the answer for some node was not known.
	doubt bool
	err   error
	// most are the places of the attempt with the most pods so far.
	most []Place
}

// unit is a set of pods that share claims, directly or through others. They go to one node.
type unit struct {
	pods []int
	kind int
}

// kind is a set of interchangeable units.
type kind struct {
	units []int
	// admin is set if a request asks for admin access.
	admin bool
	// choices are the combinations of alternatives, in order of preference. There is at least one.
	choices []choice
}

func (a *asker) exhausted() bool { return a.spent > a.Budget }

// variant is the position of the list of claims that a pod has on a node.
func (a *asker) variant(pod, node int) int {
	if of := a.Pods[pod].Variant; of != nil {
		return of(node)
	}
	return 0
}

// result returns a Result with the steps and the error so far.
func (a *asker) result(v allocator.Verdict, places []Place) *Result {
	return &Result{Verdict: v, Places: places, Steps: a.spent, Err: a.err}
}

func (a *asker) unplaced() []Place {
	places := make([]Place, len(a.Pods))
	for i := range places {
		places[i].Node = -1
	}
	return places
}

// note records the first error about a node. It returns the error of the context.
func (a *asker) note(err error) error {
	if cause := context.Cause(a.context); cause != nil {
		return cause
	}
	if a.err == nil {
		a.err = err
	}
	a.doubt = true
	return nil
}
