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

// DefaultBudget is the number of steps that a question may take: those of its searches, and one for each look at a node.
const DefaultBudget = 2 * allocator.DefaultBudget

// Pod is a pod that needs a place.
type Pod struct {
	// Kind is equal for pods that are alike in all that counts: their claims but for names, what Variant says, and what
	// Room says. A pod with the empty kind is like no other.
	Kind string
	// Variants are lists of claims to be allocated for the pod, in order. A pod without claims has an empty list. Claims of
	// one namespace and name are one claim, which the pods share.
	Variants [][]*resourceapi.ResourceClaim
	// Variant is the position of the list for a node of the question, below zero if the pod cannot run there. Nil is
	// the first list for all nodes.
	Variant func(node int) int
}

// Question asks for places for all pods. It is not modified.
type Question struct {
	// Compile makes a problem of claims. It has to be that of one allocator.
	Compile func(claims []*resourceapi.ResourceClaim) (*allocator.Problem, error)
	State   *pools.State
	// Nodes are in the order of preference.
	Nodes []*corev1.Node
	// Pods are in the order in which they would be placed one after the other.
	Pods []Pod
	// Min is how many pods need a place at least: those beyond them get one if there is one. Zero is all of them. Pods
	// of the group that run already are not part of the question: what they have is in use in the State.
	Min int
	// Room reports whether a node has room for some pods together, as far as anything but devices and the pods by themselves
	// is concerned. A pod may stand there several times, for others of its kind. Fewer pods need no more room.
	// Nil is room for all.
	Room func(node int, pods []int) bool
	// Group is what the devices of all pods have in common: values are looked for in the order of the nodes on which there are devices with
	// them, and the first one is taken with which all pods have a place, or else that with which most of them have one.
	Group extension.Group
	// Held are allocated claims of pods of the group that have a place: the devices of the others have values in common with theirs.
	Held []*resourceapi.ResourceClaim
	// Budget is in steps. Zero or less is DefaultBudget.
	Budget int64
	// OneByOne has the answer be that of one pod after the other, whether they all get a place or not.
	OneByOne bool
	// Together leaves out the attempt to place one pod after the other.
	Together bool
}

// Place is where a pod goes.
type Place struct {
	// Node is the position of the node, below zero if the pod gets none.
	Node int
	// Claims are those that were allocated for the pod, with their allocation. A shared one is there for the first
	// pod that has it.
	Claims []*resourceapi.ResourceClaim
}

// Result is the answer. It is a value that refers to what was asked.
type Result struct {
	// Verdict tells whether as many pods as are needed have a place. NotDecided means that the budget ended the search, or
	// that of the allocator for a node.
	Verdict allocator.Verdict
	// Exact says that a verdict of NotSatisfiable is a proof. Otherwise there may be a way that was not looked for: devices that
	// several nodes can reach were chosen node by node, the claims of one node took from each other what they have by admin access, or of pods that share claims either all or none were left out.
	Exact bool
	// OneByOne says that the places are those of one pod after the other.
	OneByOne bool
	// Places are by pod: all that is needed, or as many as were found if the verdict is another one.
	Places []Place
	// Domain are the values that the devices have in common, by constraint: those of Constraints, of MaxDistinct, and of the
	// preferences that are kept. Without enough places it is that of the most places that were found.
	Domain []Domain
	// Steps is what was spent of the budget.
	Steps int64
	// Err is the first error about a node. Nodes with an error take no pods.
	Err error
}

// Placed is how many pods have a place.
func (r *Result) Placed() int {
	n := 0
	for i := range r.Places {
		if r.Places[i].Node >= 0 {
			n++
		}
	}
	return n
}

// Ask answers a question. The error is the context's, or says that claims cannot be allocated on any node; then there
// is no result.
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

// normalise fills in what is left out.
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

// Within is the question about some of its nodes only, by position, in that order.
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
	a.group()
	if !q.Together {
		r, err := a.oneByOne()
		if err != nil || r.Verdict == allocator.Satisfiable || q.OneByOne {
			return r, err
		}
		a.most = r.Places
	}
	return a.together()
}

// asker is a question being answered.
type asker struct {
	Question
	context context.Context
	units   []unit
	kinds   []kind
	// problems are those of nodes, by what is on them.
	problems map[string]*allocator.Problem
	spent    int64
	// doubt is set once an answer was not known.
	doubt bool
	err   error
	// most are the places of the most pods that were found to fit.
	most []Place
}

// unit are pods that share claims, directly or by others. They go to one node.
type unit struct {
	pods []int
	kind int
}

// kind is what units have in common that are alike.
type kind struct {
	units []int
	// admin is set if there is a request for admin access.
	admin bool
	// choices are the combinations of alternatives, in order of preference. There is one at least.
	choices []choice
}

func (a *asker) exhausted() bool { return a.spent > a.Budget }

// variant is the list of claims of a pod on a node.
func (a *asker) variant(pod, node int) int {
	if of := a.Pods[pod].Variant; of != nil {
		return of(node)
	}
	return 0
}

// result is an answer with what was found out so far.
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

// note keeps the first error about a node. The error is the context's.
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
