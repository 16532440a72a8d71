// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"context"
	"math"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/allocator/internal/alike"
	"github.com/dray-project/dray/allocator/internal/diagnose"
	"github.com/dray-project/dray/allocator/internal/model"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/pools"
)

// Outcome is the answer to a Problem on a node: an *Assignment, an *Unsatisfiable or
// an *Undecided. Bad input and cancellation are errors, never outcomes.
type Outcome interface {
	// Verdict is the kind of outcome.
	Verdict() Verdict
	// Node is the name of the node.
	Node() string
	// Stats counts the work of the search. All counts are zero if the answer was remembered from an equivalent
	// node.
	Stats() Stats
	// Literal reports whether looking at a free device may be an error, such as a selector that fails on it. It is
	// also set if the search found a device before it had looked at all. If Literal is false, the outcome does not depend on the reason for which a device is unavailable. Take a device that draws on no
	// counters, and requests for a number of devices without admin access. Then it does not matter whether the
	// device is in use or has a taint that is not tolerated.
	Literal() bool
	outcome()
}

// Verdict is the kind of an Outcome.
type Verdict uint8

const (
	// NoVerdict is returned with an error.
	NoVerdict Verdict = iota
	// Satisfiable goes with an *Assignment.
	Satisfiable
	// NotSatisfiable goes with an *Unsatisfiable.
	NotSatisfiable
	// NotDecided goes with an *Undecided.
	NotDecided
)

// String returns the verdict in lower case.
func (v Verdict) String() string {
	return [...]string{"no verdict", "satisfiable", "not satisfiable", "not decided"}[v]
}

// Stats counts the work behind an Outcome on one node.
type Stats struct {
	// Steps is what the budget limits: candidates tried, requests entered, and, at a lower
	// rate, devices checked while looking ahead.
	Steps int64
	// Decisions is the number of devices chosen, including those given up again.
	Decisions int64
	// Checks counts how often a device was checked against a request: when it is chosen, and while looking
	// ahead.
	Checks int64
	// Backtracks is the number of decisions given up.
	Backtracks int64
	// CELEvaluations is the number of expressions evaluated. Cached results do not count, nor do expressions
	// that only compare the driver and attributes with literals. With concurrent use of one Allocator it is
	// approximate.
	CELEvaluations int64
}

// question is a Problem asked about one node, and its answer.
type question struct {
	problem *Problem
	state   *cluster.State
	// view is that of the node. Its Place may be nil in a Feasibility.
	view   cluster.NodeView
	answer *alike.Answer // nil with an error
	stats  Stats
}

// Verdict implements Outcome.
func (q *question) Verdict() Verdict {
	switch {
	case q.answer == nil:
		return NoVerdict
	case q.answer.Undecided:
		return NotDecided
	case q.answer.Satisfiable:
		return Satisfiable
	}
	return NotSatisfiable
}

// Node implements Outcome.
func (q *question) Node() string { return q.view.Node.Name }

// Stats implements Outcome.
func (q *question) Stats() Stats { return q.stats }

// Literal implements Outcome.
func (q *question) Literal() bool { return q.answer.Literal }

func (q *question) invalidPools() bool {
	return slices.ContainsFunc(q.reached().Pools, func(pv *pool.View) bool { return pv.Invalid != "" })
}

// reached returns the view with its Place, which is gathered again if it is nil.
func (q *question) reached() cluster.NodeView {
	if q.view.Place != nil {
		return q.view
	}
	view, err := q.state.Snapshot().GatherPools(q.view.Node)
	if err != nil {
		panic("node " + q.Node() + " has an answer, but now: " + err.Error()) // the snapshot is immutable
	}
	return view
}

func (q *question) solution() model.Solution {
	return model.Solution{
		Compiled: q.problem.recall.Compiled, Features: q.problem.allocator.evaluator.Features(),
		View: q.reached(), Finding: &q.answer.Finding, ShareID: q.problem.allocator.shareID,
	}
}

func (q *question) results() []resourceapi.AllocationResult {
	solution := q.solution()
	return solution.Results()
}

// definite returns the answer, or nil if the step budget cut the search short. Another order of search might
// then find another answer.
func (q *question) definite() *alike.Answer {
	if q.answer == nil || q.answer.Undecided || slices.ContainsFunc(q.answer.Missed, func(m model.Miss) bool { return m.Undecided }) {
		return nil
	}
	return q.answer
}

func (*question) outcome() {}

// toOutcome builds the Outcome.
func (q *question) toOutcome() Outcome {
	asked := *q
	asked.view = q.reached()
	switch q.Verdict() {
	case Satisfiable:
		return &Assignment{question: asked}
	case NotSatisfiable:
		return &Unsatisfiable{asked}
	}
	return &Undecided{asked}
}

// Assignment is a solution: devices for every request. It is immutable and safe for concurrent
// use.
type Assignment struct {
	question
	built   sync.Once
	results []resourceapi.AllocationResult
}

// Choice is one device of an Assignment.
type Choice struct {
	// Claim is the position of the claim in the Problem.
	Claim int
	// Request is the name of the request, or "request/subrequest".
	Request string
	// Class is the name of the DeviceClass by which the device serves the request.
	Class  string
	Device pools.DeviceID
}

// Choices lists the devices in order, without building results.
func (a *Assignment) Choices() []Choice {
	list, solution := make([]Choice, 0, len(a.answer.Choices)), a.solution()
	solution.Each(func(claim int, request, class string, device pool.DeviceID) {
		list = append(list, Choice{Claim: claim, Request: request, Class: class, Device: pools.DeviceID(device)})
	})
	return list
}

// Missed is a preference that an Assignment does not satisfy.
type Missed struct {
	// Rank counts the preferences of the Problem from 0, the most important one.
	Rank int
	// Claim is the position of the claim in the Problem, -1 for a preference across claims.
	Claim int
	// MatchAttribute is the attribute in which the devices do not agree. Requests are those that the preference
	// names, empty for all.
	MatchAttribute resourceapi.FullyQualifiedName
	Requests       []string
	// Undecided is set if the step budget ended the search for this preference: a solution with it may exist.
	Undecided bool
}

// Missed lists the preferences (see package extension) that the devices do not satisfy, the most important
// first. Unless Undecided is set, no solution on the node satisfies them together with those before.
func (a *Assignment) Missed() []Missed {
	p := a.problem.recall.Compiled
	list := make([]Missed, 0, len(a.answer.Missed))
	for _, miss := range a.answer.Missed {
		c := &p.Constraints[miss.Constraint]
		if c.Topology {
			break // topology preferences come last, and belong to no claim
		}
		list = append(list, Missed{
			Rank: miss.Constraint - p.Required(), Claim: c.Claim, MatchAttribute: c.Attribute, Requests: c.Requests, Undecided: miss.Undecided,
		})
	}
	return list
}

// Results returns status.allocation for each claim of the problem, in order. The first call builds them and
// assigns the IDs of shares. Configurations and tolerations are those of the input: read-only.
func (a *Assignment) Results() []resourceapi.AllocationResult {
	a.built.Do(func() { a.results = a.question.results() })
	return a.results
}

// Unsatisfiable says that the claims cannot be allocated on the node, and why. It is a value, safe
// for concurrent use.
type Unsatisfiable struct{ question }

// Equivalence identifies an equivalence class of nodes: a Problem cannot tell them apart. It is comparable
// (==), so that it can be the key of a map.
type Equivalence struct{ answer *alike.Answer }

// Alike is the equivalence class of the node. Explanations within a class differ in names only.
func (u *Unsatisfiable) Alike() Equivalence { return Equivalence{u.answer} }

// InvalidPools reports whether the node reaches pools that cannot be used because their content is invalid.
// Upstream turns that into an error for the node.
func (u *Unsatisfiable) InvalidPools() bool { return u.invalidPools() }

// Explain works out why. It looks at each device of the node. The first call for an equivalence class also
// searches, for each request and constraint about as long as for the answer.
func (u *Unsatisfiable) Explain() *explain.Explanation {
	ctx := context.Background()
	in, q := new(model.Instance), u.problem.modelQuestion(u.view, u.state)
	q.Few = math.MaxInt // it looks at all devices
	if err := in.Begin(ctx, q); err != nil {
		// Cannot happen: snapshot and usage are immutable, and a node on which Begin fails has no answer.
		panic("node " + u.Node() + " has an answer, but now: " + err.Error())
	}
	if u.state.Source() != nil {
		// With a source of usage, the shared answer may have been found with nothing in use, so its core may
		// not be this node's.
		return diagnose.Explain(ctx, in, in.Core(ctx))
	}
	return diagnose.Explain(ctx, in, u.answer.Core(ctx, in))
}

// String is the explanation in one sentence.
func (u *Unsatisfiable) String() string { return u.Explain().Summary }

// Undecided says that the step budget ended the search. Whether the claims can be allocated on the node is not
// known.
type Undecided struct{ question }

// String is the same for all nodes, so that a scheduler counts them under one reason. Node and Stats have the
// details.
func (*Undecided) String() string { return "undecided: the search used up its step budget" }
