// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/simulate"
)

// Question asks which new nodes to buy for some pods.
type Question struct {
	// Pods have no node. Each is considered separately: requirements of a group, such as a common topology, are
	// ignored.
	Pods []*corev1.Pod
	// Types are the types of new nodes. A node costs Template.Price, in any unit. A type that is available in
	// two zones is two templates. If a type's node has no status.allocatable, its CPU, memory and number of
	// pods are unlimited.
	Types []*simulate.Template
	// Limits bound the number of new nodes. A type without one is unlimited.
	Limits []Limit
	// Nodes are the names of the real nodes whose room may be used, free of charge.
	Nodes []string
	// Steps bounds the search, 0 is 40 million, which take about a second. The plan is the best one found so
	// far.
	Steps int64
}

// Limit is the largest number of new nodes of some types together: of one type, of all types in a zone, or of
// any others. A type that is named twice counts once.
type Limit struct {
	Types []*simulate.Template
	Nodes int
}

const (
	defaultSteps = 40_000_000
	// maxPrice keeps sums accurate: doubles have 53 bits.
	maxPrice = 1e9
	// maxPods bounds the pods of one question.
	maxPods = 1_000_000
)

// Find returns the cheapest new nodes for pods. It first minimizes the number of pods that are left out, then
// the cost. The pods of a node are placed in the order of State.Shapes, the largest demand first. They get the
// devices that kube-scheduler would give them in that order. The State does not change; Find may be called
// concurrently.
//
// It is not an error if pods do not fit: Plan.Left names them. The error is about an invalid pod, a price that
// is negative, NaN or above 1e9, a type that is undecided (simulate.State.Any), given twice or of another Open,
// a limit on a type that is not in Types, or a node that does not exist. Any other error is the context's.
func Find(ctx context.Context, state *simulate.State, q Question) (*Plan, error) {
	p, err := read(ctx, state, &q)
	if err != nil {
		return nil, err
	}
	found, err := p.cheapest(ctx)
	if err != nil {
		return nil, err
	}
	return p.realize(ctx, found)
}

// problem is a question as numbers: pods of kinds are packed into bins at least cost.
type problem struct {
	*Question
	state *simulate.State
	// sim has one empty node of each type, and none of the question's pods.
	sim *simulate.Sim
	// kinds are the shapes of pods that fit into some bin. demand is the number of pods of each.
	kinds  []*simulate.Shape
	demand []int
	bins   []*bin
	// caps are the limits: the number of bins that each allows. See bin.limits.
	caps []int
	// penalty is the cost of leaving out a pod: more than all nodes together can cost.
	penalty float64
	// unit is the largest amount of which all prices are multiples, 0 if there is none. Costs that differ by
	// less than tolerance count as equal.
	unit, tolerance float64
	left            []Left
	steps           int64
}

// read converts the question to numbers.
func read(ctx context.Context, state *simulate.State, q *Question) (*problem, error) {
	p := &problem{Question: q, state: state, sim: state.Sim(), steps: q.Steps}
	if p.steps <= 0 {
		p.steps = defaultSteps
	}
	if len(q.Pods) > maxPods {
		return nil, fmt.Errorf("there are %d pods, which is more than %d", len(q.Pods), maxPods)
	}
	if slices.Contains(q.Pods, nil) {
		return nil, errors.New("a pod is nil")
	}
	shapes, err := state.Shapes(q.Pods)
	if err != nil {
		return nil, err
	}
	p.kinds = shapes
	for _, shape := range shapes {
		p.demand = append(p.demand, len(shape.Pods))
	}
	if err := p.readTypes(ctx); err != nil {
		return nil, err
	}
	if err := p.readLimits(); err != nil {
		return nil, err
	}
	if err := p.readNodes(ctx); err != nil {
		return nil, err
	}
	if err := p.setAside(ctx); err != nil {
		return nil, err
	}
	highest := 0.0
	for _, t := range q.Types {
		highest = max(highest, t.Price())
	}
	if p.penalty = 100 * highest * float64(len(q.Pods)); highest == 0 {
		p.penalty = 1
	}
	p.unit, p.tolerance = unitOf(q.Types), 1e-7*max(1e-3, highest)
	return p, nil
}

// readTypes makes a bin of each type.
func (p *problem) readTypes(ctx context.Context) error {
	for i, t := range p.Types {
		if t == nil {
			return fmt.Errorf("type %d is nil", i)
		}
		name, price := t.Node().Name, t.Price()
		if slices.Contains(p.Types[:i], t) {
			return fmt.Errorf("type %s is there twice", name)
		}
		if !(price >= 0 && price <= maxPrice) {
			return fmt.Errorf("type %s: price %v: want 0 to %g", name, price, maxPrice)
		}
		if err := p.sim.Add(t, 1); err != nil {
			return err
		}
	}
	start := p.sim.State()
	for _, t := range p.Types {
		room, err := start.Room(t.At(0))
		if err != nil {
			return err
		}
		b, err := newBin(ctx, p.kinds, room)
		if err != nil {
			return fmt.Errorf("type %s: %w", t.Node().Name, err)
		}
		b.template, b.price = t, t.Price()
		p.bins = append(p.bins, b)
	}
	return nil
}

// readLimits records the limits of each bin.
func (p *problem) readLimits() error {
	for i, limit := range p.Limits {
		if limit.Nodes < 0 {
			return fmt.Errorf("limit %d: %d nodes: want 0 or more", i, limit.Nodes)
		}
		for _, t := range limit.Types {
			at := slices.Index(p.Types, t)
			if at < 0 {
				return fmt.Errorf("limit %d: a type is none of the types", i)
			}
			if b := p.bins[at]; !slices.Contains(b.limits, len(p.caps)) {
				b.limits = append(b.limits, len(p.caps))
			}
		}
		p.caps = append(p.caps, limit.Nodes)
	}
	return nil
}

// readNodes makes a bin for each class of real nodes with the same room. Its limit is the number of these
// nodes.
func (p *problem) readNodes(ctx context.Context) error {
	alike := make(map[binKey]*bin)
	seen := make(map[string]bool)
	for _, name := range p.Nodes {
		if seen[name] {
			continue
		}
		seen[name] = true
		node, err := p.state.Node(name)
		if err != nil {
			return err
		}
		room, err := p.state.Room(node)
		if err != nil {
			return err
		}
		b, err := newBin(ctx, p.kinds, room)
		if err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
		if len(b.kinds) == 0 && !b.doubt {
			continue
		}
		key := b.key()
		if known := alike[key]; known != nil {
			known.nodes = append(known.nodes, node)
			continue
		}
		b.nodes, b.limits = append(b.nodes, node), []int{len(p.caps) + len(alike)}
		alike[key] = b
		p.bins = append(p.bins, b)
	}
	for _, b := range p.bins {
		if b.template == nil {
			p.caps = append(p.caps, len(b.nodes))
		}
	}
	return nil
}

// unitOf returns the largest amount of which all prices are multiples, to a precision of 1e-6. Each cost is a
// multiple, too, so a lower bound can be rounded up to one. It is 0 if there is none.
func unitOf(types []*simulate.Template) float64 {
	const parts = 1e6
	unit := int64(0)
	for _, t := range types {
		scaled := t.Price() * parts
		whole := math.Round(scaled)
		if math.Abs(scaled-whole) > 1e-6*max(1, whole*1e-6) || whole > 1<<53 {
			return 0
		}
		for a, b := unit, int64(whole); ; a, b = b, a%b {
			if b == 0 {
				unit = a
				break
			}
		}
	}
	return float64(unit) / parts
}
