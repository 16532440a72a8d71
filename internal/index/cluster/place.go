package cluster

import (
	"errors"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/index/shape"
)

// NodeView is what one node can reach.
type NodeView struct {
	Node *corev1.Node
	// Pools are in first-fit order, see pool.CompareViews. The list and the views are shared with
	// other callers and must not be modified.
	Pools []*pool.View

	// place is set if the name of the node alone decides what it reaches.
	place *Place
}

// Attach returns what one user keeps with all that a node reaches, for as long as nothing
// changes there. If more than the name of the node decides what it reaches, nothing is kept,
// and the result is that of build.
func (v *NodeView) Attach(build func() any) any {
	if v.place == nil {
		return build()
	}
	return v.place.Attach(build)
}

// GatherPools returns the pools which the node can reach, as an allocation for the
// node sees them. What depends on the name of the node alone is remembered. The error is about a nil
// node or a selector that does not parse.
func (s *Snapshot) GatherPools(node *corev1.Node) (NodeView, error) {
	if node == nil {
		return NodeView{}, errors.New("node is nil")
	}
	if err := s.common.checkSelectors(node); err != nil {
		return NodeView{}, err
	}
	named := s.place(node.Name)
	chosen := s.common.chosen(node)
	if len(chosen) == 0 {
		return named.NodeView(node), nil
	}
	all := slices.Concat(named.views, chosen)
	slices.SortFunc(all, pool.CompareViews)
	return NodeView{Node: node, Pools: all}, nil
}

// route has the pools with slices that name one node, in no order, and what follows from them.
type route struct {
	pools []*pool.Pool
	place atomic.Pointer[Place]
}

// Place is what a node reaches by its name alone. It is the same for snapshots between
// which nothing changed for the node, and safe for concurrent use.
type Place struct {
	common *common
	// node is the name, empty for all that no slice names.
	node string
	// views are in first-fit order.
	views []*pool.View
	// optional is set if something depends on which features the node declares.
	optional bool
	// helpful is set if what is in use may make something obtainable.
	helpful bool
	// separate is set if what is in use of a device says nothing about others.
	separate bool
	notes    atomic.Pointer[stateNote]
	one      [1]*pool.View // room for the views of most places
	shape.Attachment
}

// NodeView is what a node reaches that has the name which the place is for.
func (p *Place) NodeView(node *corev1.Node) NodeView {
	return NodeView{Node: node, Pools: p.views, place: p}
}

// Views are in first-fit order. They must not be modified.
func (p *Place) Views() []*pool.View { return p.views }

// Helpful reports whether what is in use may make something obtainable that is not if
// nothing is in use.
func (p *Place) Helpful() bool { return p.helpful }

// Separate reports whether no pool is one of all nodes and no device consumes counters: what is in use of
// a device says nothing about others.
func (p *Place) Separate() bool { return p.separate }

// Place returns what the node reaches, nil if more than its name decides that.
func (s *Snapshot) Place(node *corev1.Node) *Place {
	if node == nil || len(s.common.choosy)+len(s.common.faulty) > 0 {
		return nil
	}
	if place := s.place(node.Name); !place.optional {
		return place
	}
	return nil
}

// place returns what the node reaches by its name.
func (s *Snapshot) place(node string) *Place {
	slot, place := s.shortcuts.find(node)
	if place != nil {
		return place
	}
	named, ok := s.byNode.Get(node)
	if !ok {
		return s.placeOf(&s.common.nowhere, "")
	}
	place = s.placeOf(named, node)
	slot.Store(place)
	return place
}

// shortcuts find places of one Snapshot again in one step, where byNode takes one for each of its levels, each to
// memory of its own. A name has one of two slots. Where these are not enough, some names are never found.
type shortcuts []atomic.Pointer[shortcutChunk]

const shortcutChunkSize = 64

type shortcutChunk [shortcutChunkSize]atomic.Pointer[Place]

// newShortcuts has more than twice as many slots as names.
func newShortcuts(names int) shortcuts {
	return make(shortcuts, 1<<bits.Len(uint(2*names/shortcutChunkSize)))
}

var shortcutSeed = maphash.MakeSeed()

// find returns the place of a name if it was stored in the slot for it.
func (s shortcuts) find(node string) (slot *atomic.Pointer[Place], known *Place) {
	hash := maphash.String(shortcutSeed, node)
	at := &s[hash/shortcutChunkSize%uint64(len(s))]
	if at.Load() == nil {
		at.CompareAndSwap(nil, new(shortcutChunk))
	}
	chunk, first := at.Load(), hash%shortcutChunkSize
	for _, i := range [...]uint64{first, first ^ 1} {
		slot = &chunk[i]
		if known = slot.Load(); known == nil || known.node == node {
			return slot, known
		}
	}
	return slot, nil
}

// placeOf returns what nodes of a route reach.
func (s *Snapshot) placeOf(named *route, node string) *Place {
	known := named.place.Load()
	if known != nil && known.common == s.common {
		return known
	}
	made := &Place{common: s.common, node: node}
	made.views = made.one[:0]
	for _, pool := range named.pools {
		made.views = append(made.views, known.view(pool, node))
	}
	for _, pool := range s.common.everywhere {
		if !slices.Contains(named.pools, pool) {
			made.views = append(made.views, pool.Elsewhere())
		}
	}
	slices.SortFunc(made.views, pool.CompareViews)
	made.optional = slices.ContainsFunc(made.views, (*pool.View).Optional)
	made.helpful = slices.ContainsFunc(made.views, (*pool.View).Helpful)
	made.separate = !slices.ContainsFunc(made.views, func(v *pool.View) bool { return v.Common || v.Pool.Consuming })
	named.place.Store(made)
	return made
}

// view returns the view of a pool which names the node. That of the place before is kept,
// for what it is has not changed.
func (p *Place) view(pool *pool.Pool, node string) *pool.View {
	if p != nil {
		for _, v := range p.views {
			if v.Pool == pool {
				return v
			}
		}
	}
	return pool.Named(node)
}

// common is the part of a Snapshot that concerns nodes whatever their names are. All
// lists are sorted.
type common struct {
	// everywhere are the pools with slices for all nodes and none with node selectors,
	// choosy those with node selectors.
	everywhere, choosy []*pool.Pool
	// faulty are the pools with slices of which the node selection may fail.
	faulty []*pool.Pool
	// nowhere is the route of nodes which no slice names.
	nowhere route
}

// next is for a snapshot that followed after changes.
func (c *common) next(s *Snapshot, changes []change) *common {
	list := func(before []*pool.Pool, belongs func(*pool.Pool) bool) []*pool.Pool {
		after := slices.DeleteFunc(slices.Clone(before), func(p *pool.Pool) bool { return s.Pool(p.ID) != p })
		for _, c := range changes {
			if c.pool != nil && belongs(c.pool) {
				after = append(after, c.pool)
			}
		}
		slices.SortFunc(after, comparePools)
		return after
	}
	return &common{
		everywhere: list(c.everywhere, (*pool.Pool).Everywhere),
		choosy:     list(c.choosy, (*pool.Pool).Choosy),
		faulty:     list(c.faulty, (*pool.Pool).CanFail),
	}
}

// checkSelectors evaluates the slices of which the node selection may fail, also
// those of old generations.
func (c *common) checkSelectors(node *corev1.Node) error {
	for _, pool := range c.faulty {
		if err := pool.CheckSelectors(node); err != nil {
			return err
		}
	}
	return nil
}

// chosen returns the views of the pools whose node selectors choose the node.
func (c *common) chosen(node *corev1.Node) []*pool.View {
	var views []*pool.View
	for _, pool := range c.choosy {
		if view := pool.Chosen(node); view != nil {
			views = append(views, view)
		}
	}
	return views
}
