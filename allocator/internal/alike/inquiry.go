package alike

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/dray-project/dray/allocator/internal/model"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
)

// inquiry finds an answer where it costs something to know what is in use: it asks about
// the devices which the answer would take if all others were free, and looks for another
// answer only if one of them is in use. The answer is that of the whole state. What is in
// use besides rules out solutions and allows none that was not there, so that the first
// solution stays the first; and a search that does without a device looks at nothing which
// it would not have looked at with it. That holds for devices in use as a whole which
// draw on no counters: what a policy reads of a device does not depend on others of these.
//
// It is an immutable node of a tree, but for its branches. Nodes that are alike have the
// tree in common, by the answer for when nothing is in use.
type inquiry struct {
	answer *Answer // not nil
	// free and used are the devices that were asked about on the way here, by place.
	free, used []int32
	// ask are the devices of the answer that were not.
	ask []int32
	// next has where to go on if the device of the same position in ask is in use.
	next  []atomic.Pointer[inquiry]
	nodes *atomic.Int32 // of the whole tree
	// missed counts how often there was nowhere to go on.
	missed atomic.Int32
}

const (
	// maxInquiry bounds the nodes of a tree.
	maxInquiry = 256
	// rareInquiry is how often a branch has to be missing before it grows: for a few
	// nodes, looking at the whole state costs less.
	rareInquiry = 16
)

// newInquiry is about an answer, with what is known of the way to it.
func newInquiry(a *Answer, free, used []int32, nodes *atomic.Int32) *inquiry {
	q := &inquiry{answer: a, free: free, used: used, nodes: nodes}
	for _, choice := range a.Choices {
		known := slices.Contains(q.ask, choice.Place) || slices.Contains(free, choice.Place)
		if !known && !slices.Contains(used, choice.Place) {
			q.ask = append(q.ask, choice.Place)
		}
	}
	q.next = make([]atomic.Pointer[inquiry], len(q.ask))
	return q
}

// inquiry returns the root of the tree of an answer for when nothing is in use.
func (a *Answer) inquiry() *inquiry {
	if known := a.root.Load(); known != nil {
		return known
	}
	a.root.CompareAndSwap(nil, newInquiry(a, nil, nil, new(atomic.Int32)))
	return a.root.Load()
}

// inquire returns nil if the state has to be looked at as a whole. idle is the answer for
// when nothing is in use.
func (p *Problem) inquire(ctx context.Context, u cluster.Source, view cluster.NodeView, idle *Answer, search Search) *Answer {
	q := idle.inquiry()
	for at := 0; at < len(q.ask); at++ {
		pool, i := model.DeviceAt(view.Pools, q.ask[at])
		if !u.Exclusive(pool, i) {
			continue
		}
		next := q.next[at].Load()
		if next == nil {
			if next = p.branch(ctx, view, q, at, search); next == nil {
				return nil
			}
			q.next[at].Store(next)
		}
		q, at = next, -1
	}
	return q.answer
}

// branch goes on from where a device is found in use. It is nil if there is no definite
// answer, or the tree is as large as it gets.
func (p *Problem) branch(ctx context.Context, view cluster.NodeView, q *inquiry, at int, search Search) *inquiry {
	if q.missed.Add(1) <= rareInquiry {
		return nil
	}
	if q.nodes.Add(1) > maxInquiry {
		q.nodes.Add(-1)
		return nil
	}
	used := append(slices.Clone(q.used), q.ask[at])
	found, _ := p.answer(ctx, view, &supposedUsage{views: view.Pools, used: used}, search, true)
	if found == nil || found.Literal {
		q.nodes.Add(-1)
		return nil
	}
	return newInquiry(found, slices.Concat(q.free, q.ask[:at]), used, q.nodes)
}

// supposedUsage is that some devices of a node are in use as a whole, by place, and no others.
type supposedUsage struct {
	views []*pool.View
	used  []int32
}

// unused is that nothing is in use.
var unused supposedUsage

func (u *supposedUsage) Pool(p *pool.Pool) *pool.Usage {
	var names []string
	for _, place := range u.used {
		if of, i := model.DeviceAt(u.views, place); of == p {
			names = append(names, p.Devices[i].Object.Name)
		}
	}
	if names == nil {
		return p.Idle()
	}
	return pool.NewUsage(p, func(i pool.DeviceIndex) pool.Use {
		return pool.Use{Exclusive: slices.Contains(names, p.Devices[i].Object.Name)}
	})
}
