package cluster

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/internal/index/pool"
)

// NodeView is what one node can reach.
type NodeView struct {
	Node *corev1.Node
	// Pools are in first-fit order: by driver, then name, except that pools with
	// binding conditions come after all others, in the same order. The list and the
	// views are shared with other callers and must not be modified.
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
// node sees them. A pool is there if a slice of its highest generation, wherever
// the other slices of that generation are, reaches the node. What depends on the name of
// the node alone is remembered; beyond that, the time it takes depends on the pools with
// node selectors.
//
// The error says that node is nil, or names a slice (and device) whose node
// selector has to be evaluated and does not parse.
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
