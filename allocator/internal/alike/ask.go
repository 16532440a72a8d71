package alike

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/internal/index/cluster"
)

// Search looks for the answer of a node that is like none before it. The answer is nil if there is
// no definite one, or an error. Supposed is set if it is about another usage than was asked about.
type Search func(view cluster.NodeView, u eligibility.Usage, supposed bool) (*Answer, error)

// Ask returns the answer of a node that is like the one asked about, or searches. The place is that
// of the node, nil if it has none.
func (p *Problem) Ask(ctx context.Context, u *cluster.State, node *corev1.Node, place *cluster.Place, search Search) (*Answer, error) {
	s := u.Snapshot()
	if place == nil || !p.Numbered() {
		return p.compare(ctx, s, u, node, search, false)
	}
	if source := u.Source(); source != nil && !place.Helpful() {
		// Finding out what is in use costs something. It can wait: what nothing in use does not
		// allow nothing does.
		known, err := p.idleAnswer(ctx, s, node, place, search)
		if err != nil || known != nil && !known.Satisfiable && !known.Literal {
			return known, err
		}
		if known != nil && known.Satisfiable {
			if known = p.inquire(ctx, s, source, node, place.Views(), known, search); known != nil {
				return known, nil
			}
		}
	}
	state := p.state(place, u)
	if state != 0 {
		if known := p.kind.ofState.get(state); known != nil {
			return known, nil
		}
	}
	known, err := p.compare(ctx, s, u, node, search, false)
	if known != nil && state != 0 {
		p.kind.ofState.set(state, known)
	}
	return known, err
}

// idleAnswer is the answer for a node of which nothing is in use, nil if there is no definite one.
func (p *Problem) idleAnswer(ctx context.Context, s *cluster.Snapshot, node *corev1.Node, place *cluster.Place, search Search) (*Answer, error) {
	state := p.idleState(place)
	if state == 0 {
		return nil, nil
	}
	if known := p.kind.ofState.get(state); known != nil {
		return known, nil
	}
	known, err := p.compare(ctx, s, idleUsage{}, node, search, true)
	if ctx.Err() != nil {
		return nil, err
	}
	if known != nil {
		p.kind.ofState.set(state, known)
	}
	return known, nil // an error may go away with what is in use
}

// compare looks for a node of the same signature, and searches if there is none.
func (p *Problem) compare(ctx context.Context, s *cluster.Snapshot, u eligibility.Usage, node *corev1.Node, search Search, supposed bool) (*Answer, error) {
	view, err := s.GatherPools(node)
	if err != nil {
		return nil, err
	}
	var buffer [signatureSize]byte
	signature := p.signature(ctx, buffer[:0], &view, u)
	if signature != nil {
		if known := p.kind.get(signature); known != nil {
			return known, nil
		}
	}
	found, err := search(view, u, supposed)
	if signature != nil && found != nil {
		p.kind.add(signature, found)
	}
	return found, err
}

// Numbered reports whether states of places have numbers for this problem.
func (p *Problem) Numbered() bool { return p.kind.lens != nil && p.deterministic }

// Tally returns the numbers of the states of places as far as they are known, nil if such numbers
// are not for this problem.
func (p *Problem) Tally(places *cluster.Places, u *cluster.State) *cluster.Tally {
	if !p.Numbered() {
		return nil
	}
	tally, _ := places.Tally(p.kind.lens, u)
	return tally
}

// Known is the answer for the i-th place of a tally, nil if it is not known.
func (p *Problem) Known(tally *cluster.Tally, i int) *Answer {
	if tally == nil {
		return nil
	}
	if state := tally.Number(i); state != 0 {
		return p.kind.ofState.get(state)
	}
	return nil
}

// Note completes a tally with the number of a place.
func (p *Problem) Note(tally *cluster.Tally, i int, place *cluster.Place, u *cluster.State) {
	if tally == nil || place == nil || tally.Number(i) != 0 {
		return
	}
	if state, known := place.Number(p.kind.lens, u); known {
		tally.Set(i, state)
	}
}
