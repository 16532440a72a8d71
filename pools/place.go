package pools

import (
	"cmp"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// route has the pools with slices that name one node, sorted by ID, and what follows
// from them.
type route struct {
	pools []*Pool
	place atomic.Pointer[Place]
}

// Place is what a node reaches by its name alone. It is the same for snapshots between
// which nothing changed for the node, and safe for concurrent use.
type Place struct {
	common *common
	// node is the name, empty for all that no slice names.
	node string
	// views are in first-fit order.
	views []*PoolView
	// optional is set if something depends on which features the node declares.
	optional bool
	notes    atomic.Pointer[stateNote]
	attachment
}

// NodeView is what a node reaches that has the name which the place is for.
func (p *Place) NodeView(node *corev1.Node) NodeView {
	return NodeView{Node: node, Pools: p.views, place: p}
}

// Views are in first-fit order. They must not be modified.
func (p *Place) Views() []*PoolView { return p.views }

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
	shortcut := s.shortcuts.to(node, s.byNode.Len())
	if shortcut != nil {
		if known := shortcut.Load(); known != nil && known.node == node {
			return known
		}
	}
	named, ok := s.byNode.Get(node)
	if !ok {
		return s.placeOf(&s.common.nowhere, "")
	}
	found := s.placeOf(named, node)
	if shortcut != nil {
		shortcut.Store(found)
	}
	return found
}

// placeOf returns what nodes of a route reach.
func (s *Snapshot) placeOf(named *route, node string) *Place {
	known := named.place.Load()
	if known != nil && known.common == s.common {
		return known
	}
	made := &Place{common: s.common, node: node}
	for _, pool := range named.pools {
		if !pool.choosy {
			made.views = append(made.views, known.view(pool, node))
		}
	}
	for _, pool := range s.common.everywhere {
		if _, found := search(named.pools, pool.ID); !found {
			made.views = append(made.views, pool.elsewhere())
		}
	}
	slices.SortFunc(made.views, compareViews)
	made.optional = slices.ContainsFunc(made.views, (*PoolView).optional)
	named.place.Store(made)
	return made
}

func (v *PoolView) optional() bool {
	for _, d := range v.Devices {
		if len(v.Pool.Devices[d.Index].Slice.Object.Spec.SkipNodeOperations) > 0 {
			return true
		}
	}
	return false
}

// view returns the view of a pool which names the node. That of the place before is kept,
// for what it is has not changed.
func (p *Place) view(pool *Pool, node string) *PoolView {
	if p != nil {
		for _, v := range p.views {
			if v.Pool == pool {
				return v
			}
		}
	}
	return pool.view(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, pool.candidates(node))
}

// elsewhere is the view of nodes which the pool does not name.
func (p *Pool) elsewhere() *PoolView {
	if kept := p.common.Load(); kept != nil {
		return kept
	}
	view := p.view(&corev1.Node{}, p.candidates(""))
	view.Common = true
	if !p.common.CompareAndSwap(nil, view) {
		return p.common.Load()
	}
	return view
}

// compareViews compares by first-fit order.
func compareViews(a, b *PoolView) int {
	if a.Binding != b.Binding {
		if b.Binding {
			return -1
		}
		return 1
	}
	return comparePools(a.Pool.ID, b.Pool.ID)
}

// join merges two sorted lists.
func join(a, b []*PoolView) []*PoolView {
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.SortFunc(all, compareViews)
	return all
}

// common is the part of a Snapshot that concerns nodes whatever their names are. All
// lists are sorted.
type common struct {
	// everywhere are the pools with slices for all nodes and none with node selectors,
	// choosy those with node selectors.
	everywhere, choosy []*Pool
	// faulty are the pools with slices of which the node selection may fail.
	faulty []*Pool
	// nowhere is the route of nodes which no slice names.
	nowhere route
}

func (c *common) next(changes []change) *common {
	return &common{
		everywhere: merge(c.everywhere, changes, func(p *Pool) bool { return len(p.roaming) > 0 && !p.choosy }),
		choosy:     merge(c.choosy, changes, func(p *Pool) bool { return p.choosy }),
		faulty:     merge(c.faulty, changes, func(p *Pool) bool { return len(p.faulty) > 0 }),
	}
}

// roams reports whether a pool is in one of the lists.
func (p *Pool) roams() bool { return p != nil && (len(p.roaming) > 0 || len(p.faulty) > 0) }

// checkSelectors evaluates the slices of which the node selection may fail, also
// those of old generations.
func (c *common) checkSelectors(node *corev1.Node) error {
	for _, pool := range c.faulty {
		for _, reach := range pool.faulty {
			if _, err := reach.reaches(node); err != nil {
				return err
			}
		}
	}
	return nil
}

// chosen returns the views of the pools whose node selectors choose the node.
func (c *common) chosen(node *corev1.Node) ([]*PoolView, error) {
	var views []*PoolView
	for _, pool := range c.choosy {
		view, err := pool.chosen(node)
		if err != nil {
			return nil, err
		}
		if view != nil {
			views = append(views, view)
		}
	}
	slices.SortFunc(views, compareViews)
	return views, nil
}

func comparePools(a, b PoolID) int {
	return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Name, b.Name))
}
