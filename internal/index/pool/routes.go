// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// routes finds the slices that reach a node without evaluating the others.
type routes struct {
	// traits index selections: a node with none of the traits of a selection does not match it. keys are the
	// keys of all traits. Both are sorted.
	keys   []string
	traits []numberedTrait
	// selections are the distinct node selections of slices and devices.
	selections []route

	// views caches the views of a pool with SelectsNodes, by the set of selections that match. A view is nil if
	// the pool does not reach such nodes. Mostly there are few sets.
	mu    sync.RWMutex
	views map[string]*View
}

// route is a selection with the slices that nodes reach by it, as positions in Pool.Slices.
type route struct {
	*selection
	slices []int32
}

// maxViews bounds the cached views of a pool.
const maxViews = 4096

// trait is a label of a node, or its name. All nodes have the zero trait.
type trait struct{ key, value string }

// numberedTrait is a trait of the selection with a number.
type numberedTrait struct {
	trait
	number int32
}

func (t numberedTrait) compare(other numberedTrait) int {
	return cmp.Or(strings.Compare(t.key, other.key), strings.Compare(t.value, other.value), cmp.Compare(t.number, other.number))
}

// nodeName is the key for names of nodes. No label can have this key.
const nodeName = "/name"

func (p *Pool) setRoutes() {
	r := &p.routes
	numbers := make(map[selectionKey]int32)
	for position, slice := range p.Slices {
		own := &slice.reach.selections[0]
		// The API forbids setting both. The names of nodes in a slice then do not determine the views.
		p.SelectsNodes = p.SelectsNodes || own.isSet() && len(slice.reach.selections) > 1
		for i := range slice.reach.selections {
			s := &slice.reach.selections[i]
			p.SelectsNodes = p.SelectsNodes || s.source != nil
			key := s.key()
			number, known := numbers[key]
			if !known {
				number = int32(len(numbers))
				numbers[key] = number
				r.selections = append(r.selections, route{selection: s})
				for _, t := range s.traits() {
					r.traits = append(r.traits, numberedTrait{t, number})
				}
			}
			leads := &r.selections[number].slices
			if n := len(*leads); n > 0 && (*leads)[n-1] == int32(position) || i > 0 && own.isSet() {
				continue // devices only select among the nodes that the slice reaches
			}
			*leads = append(*leads, int32(position))
		}
	}
	slices.SortFunc(r.traits, numberedTrait.compare)
	for _, t := range r.traits {
		if n := len(r.keys); n == 0 || r.keys[n-1] != t.key {
			r.keys = append(r.keys, t.key)
		}
	}
	if !p.SelectsNodes {
		p.Elsewhere = p.Named("")
	}
}

// selectionKey is equal for equal selections. All selections that never match are equal.
type selectionKey struct {
	node   string
	all    bool
	source string
}

func (s *selection) key() selectionKey {
	key := selectionKey{node: s.node, all: s.all}
	if s.selector != nil {
		text, err := s.source.Marshal()
		if err != nil {
			panic("a node selector cannot be encoded: " + err.Error()) // it consists of strings
		}
		key.source = string(text)
	}
	return key
}

// traits returns traits of which a matching node must have at least one.
func (s *selection) traits() (list []trait) {
	switch {
	case s.node != "":
		return []trait{{nodeName, s.node}}
	case s.all:
		return []trait{{}}
	case s.selector == nil:
		return nil
	}
	for i := range s.source.NodeSelectorTerms {
		key, values := required(&s.source.NodeSelectorTerms[i])
		if values == nil {
			return []trait{{}}
		}
		for _, value := range values {
			list = append(list, trait{key, value})
		}
	}
	return list
}

// required returns the first requirement of a term that lists values for a label or the name. Nodes must
// satisfy all requirements. values is nil if there is none.
func required(term *corev1.NodeSelectorTerm) (key string, values []string) {
	for _, field := range term.MatchFields {
		if field.Key == "metadata.name" && field.Operator == corev1.NodeSelectorOpIn {
			return nodeName, field.Values
		}
	}
	for _, label := range term.MatchExpressions {
		if label.Key != "" && label.Operator == corev1.NodeSelectorOpIn {
			return label.Key, label.Values
		}
	}
	return "", nil
}

// match appends the numbers of the selections that a node matches.
func (r *routes) match(node *corev1.Node, to []int32) []int32 {
	for _, key := range r.keys {
		value, found := node.Labels[key]
		switch key {
		case "":
			value, found = "", true
		case nodeName:
			value, found = node.Name, true
		}
		at, _ := slices.BinarySearchFunc(r.traits, numberedTrait{trait: trait{key, value}}, numberedTrait.compare)
		for ; found && at < len(r.traits) && r.traits[at].trait == (trait{key, value}); at++ {
			number := r.traits[at].number
			if matches, _ := r.selections[number].matches(node); matches { // selections with an error have no traits
				to = append(to, number)
			}
		}
	}
	return to
}

// viewOf makes the view of a node that matches some selections, nil if the pool does not reach it.
func (p *Pool) viewOf(node *corev1.Node, matching []int32) *View {
	var reaching []int32
	for _, number := range matching {
		reaching = append(reaching, p.routes.selections[number].slices...)
	}
	if len(reaching) == 0 {
		return nil
	}
	slices.Sort(reaching)
	return p.view(node, slices.Compact(reaching))
}

// Named returns the view of a node of this name. SelectsNodes must not be set.
func (p *Pool) Named(node string) *View {
	named := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	return p.viewOf(named, p.routes.match(named, nil))
}

// Chosen returns the view of a node, nil if the pool does not reach it. SelectsNodes must be set, and
// CheckSelectors must have returned no error for the node.
func (p *Pool) Chosen(node *corev1.Node) *View {
	r := &p.routes
	var buffer [64]byte
	key := append(buffer[:0], make([]byte, (len(r.selections)+7)/8)...)
	matching := r.match(node, make([]int32, 0, 16))
	for _, number := range matching {
		key[number/8] |= 1 << (number % 8)
	}
	r.mu.RLock()
	view, known := r.views[string(key)]
	r.mu.RUnlock()
	if known {
		return view
	}
	view = p.viewOf(node, matching)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.views == nil || len(r.views) >= maxViews {
		r.views = make(map[string]*View)
	}
	r.views[string(key)] = view
	return view
}

// Nodes lists the names of nodes that slices or devices name, once each. There are none if SelectsNodes is set.
func (p *Pool) Nodes() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, t := range p.routes.traits {
			repeated := i > 0 && p.routes.traits[i-1].trait == t.trait
			if !p.SelectsNodes && t.key == nodeName && !repeated && !yield(t.value) {
				return
			}
		}
	}
}
