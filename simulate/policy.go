// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import "github.com/dray-project/dray/simulate/internal/onenode"

// Policy chooses among the nodes that fit. Which devices of a node a pod gets is up to
// Options.DevicePolicy. A policy is immutable.
type Policy struct {
	// score is nil for first fit.
	score func(NodeClass) float64
}

// FirstFit takes nodes in the order in which they are given.
var FirstFit = Policy{}

// Pack prefers the node of which most devices are in use, Spread the one of which least are.
var (
	Pack   = Score(func(c NodeClass) float64 { return c.InUse })
	Spread = Score(func(c NodeClass) float64 { return -c.InUse })
)

// LeastWaste prefers the node that loses least room for pods of the given shapes: each pod of a
// shape that does not fit any more counts as one.
func LeastWaste(shapes ...*Shape) Policy {
	return Score(func(c NodeClass) float64 {
		lost := 0.0
		for _, shape := range shapes {
			lost += float64(c.Room(shape) - c.RoomAfter(shape))
		}
		return -lost
	})
}

// Score is a policy of one's own: the node with the highest score wins, the first of several. It is
// asked once per call for nodes that are in the same state.
func Score(f func(NodeClass) float64) Policy { return Policy{score: f} }

// NodeClass are nodes that are in the same state, as a Policy sees them.
type NodeClass struct {
	// Example is one of them. All else about an undecided node is that of the cheapest template of
	// which the node can be once the pod is there.
	Example Node
	// InUse is which part of the devices is in use, from 0 to 1.
	InUse float64
	// Room is how many more pods of a shape get devices on the node, RoomAfter how many once the
	// pod is there that is being placed. CPU and the like are not looked at, nor pools of several
	// nodes. Where that is undecided, it is how many fit for sure.
	Room, RoomAfter func(*Shape) int
}

// candidate is a node on which a pod fits.
type candidate struct {
	node   Node
	answer reply
	number int16
}

// choose returns the node that the policy prefers, nil if the pod fits on none.
func (b *batch) choose() (*candidate, error) {
	var best *candidate
	var highest float64
	scores := make(map[reply]float64)
	visit := func(n Node, rec *nodeRecord) (more bool, err error) {
		if b.perNode > 0 && b.counts[n] >= b.perNode {
			return true, nil // it is by itself: no node like it stands for it
		}
		a, number, err := b.asked.on(&b.call, &b.sim.data, n, rec)
		if err != nil {
			return false, err
		}
		if a.Verdict != onenode.Fits {
			b.call.Note(a.Answer)
			return true, nil
		}
		if b.policy.score == nil {
			best = &candidate{n, a, number}
			return false, nil
		}
		score, known := scores[a]
		if !known {
			score = b.score(n, rec, a)
			scores[a] = score
		}
		if best == nil || score > highest {
			best, highest = &candidate{n, a, number}, score
		}
		return true, nil
	}
	for _, part := range b.on.list() {
		more, err := b.sim.data.visit(part, visit)
		if err != nil || !more {
			return best, err
		}
	}
	return best, nil
}

// score is what the policy says of a node.
func (b *batch) score(n Node, rec *nodeRecord, a reply) float64 {
	w, c := b.sim.world, b.call // a policy may keep functions; what they refer to lives on the heap
	before, after := *rec, a.Next()
	if o := a.options; o != nil {
		cheapest := o.cheapest()
		before, _ = rec.as(cheapest)
		then, _ := o.find(cheapest)
		after = then.state
	}
	facts := before.facts
	room := func(s *onenode.State) func(*Shape) int {
		return func(shape *Shape) int {
			shape, err := shape.in(w)
			if err != nil {
				return 0 // such pods fit nowhere
			}
			q := shape.kind.plain
			if len(shape.kind.extended) > 0 {
				number := w.on(shape.kind, facts)
				if number < 0 {
					return 0
				}
				q = w.Question(append(specsOf(shape.kind.entries), shape.kind.variantAt(number).specs()...))
			}
			if q.Err != nil || len(q.Specs) == 0 {
				return 0
			}
			pods, _, _, err := w.Room(&c, s, q, onenode.Unlimited)
			if err != nil {
				return 0 // the context was cancelled, which the next question reports
			}
			return int(pods)
		}
	}
	score := b.policy.score(NodeClass{Example: n, InUse: before.inUse(), Room: room(before.state), RoomAfter: room(after)})
	b.call.Budget = c.Budget
	return score
}

// visit shows the nodes of a part of a set, one of each run of equal ones, and one that is fresh. It
// reports whether the visitor wants more.
func (d *version) visit(part nodesPart, visit func(Node, *nodeRecord) (bool, error)) (bool, error) {
	if part.template == nil {
		for i, rec := range d.realIn(part) {
			if more, err := visit(Node{index: i, name: rec.facts.Node.Name}, rec); err != nil || !more {
				return false, err
			}
		}
		return true, nil
	}
	g := d.group(part.template)
	first := 0
	for i := range g.runs {
		if more, err := visit(Node{template: part.template, index: first}, &g.runs[i].nodeRecord); err != nil || !more {
			return false, err
		}
		first += g.runs[i].count
	}
	if part.freshNodes(g) <= 0 {
		return true, nil
	}
	fresh := d.fresh(part.template)
	return visit(Node{template: part.template, index: first}, &fresh)
}
