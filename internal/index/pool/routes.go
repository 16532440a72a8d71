package pool

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// routes is the part of a Pool that finds the slices which may reach a node
// without looking at the others.
type routes struct {
	// fixed has the slices that reach nodes by name, sorted by node, then slice.
	fixed []fixedSlice
	// roaming are the slices whose node must be looked at, ascending.
	roaming []int32
	// faulty are the slices of any generation whose evaluation can fail.
	faulty []*reach
}

// fixedSlice says that a node can reach the slice with that position in Pool.Slices.
type fixedSlice struct {
	node  string
	slice int32
}

func (r *routes) add(position int, reach *reach) {
	names, only := reach.nodes()
	if !only {
		r.roaming = append(r.roaming, int32(position))
	}
	for _, name := range names {
		r.fixed = append(r.fixed, fixedSlice{node: name, slice: int32(position)})
	}
}

func (r *routes) sort() {
	slices.SortFunc(r.fixed, func(a, b fixedSlice) int {
		if c := strings.Compare(a.node, b.node); c != 0 {
			return c
		}
		return cmp.Compare(a.slice, b.slice)
	})
	r.fixed = slices.Clip(slices.Compact(r.fixed))
}

// Nodes calls visit with the name of each node that is reached by name, once.
func (r *routes) Nodes(visit func(node string)) {
	for i := range r.fixed {
		if i == 0 || r.fixed[i-1].node != r.fixed[i].node {
			visit(r.fixed[i].node)
		}
	}
}

// candidates returns the slices that may reach a node, in order.
func (p *Pool) candidates(node string) []*Slice {
	first, _ := slices.BinarySearchFunc(p.fixed, node, func(f fixedSlice, node string) int {
		return strings.Compare(f.node, node)
	})
	positions := slices.Clone(p.roaming)
	for _, f := range p.fixed[first:] {
		if f.node != node {
			break
		}
		positions = append(positions, f.slice)
	}
	slices.Sort(positions)
	positions = slices.Compact(positions)
	candidates := make([]*Slice, len(positions))
	for i, position := range positions {
		candidates[i] = p.Slices[position]
	}
	return candidates
}

// reaching returns the slices that reach a node, in order.
func (p *Pool) reaching(node *corev1.Node) ([]*Slice, error) {
	var reaching []*Slice
	for _, slice := range p.candidates(node.Name) {
		match, err := slice.reach.reaches(node)
		if err != nil {
			return nil, err
		}
		if match {
			reaching = append(reaching, slice)
		}
	}
	return reaching, nil
}
