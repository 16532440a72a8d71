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

// routes find the slices that reach a node without looking at the others.
type routes struct {
	keys []routeKey
	// selections is how many different ones the slices and devices have.
	selections int

	// views are those of a Choosy pool, by which selections match. They are nil for nodes that the pool does
	// not reach. There are as many views as ways for nodes to be chosen, which mostly is few.
	mu    sync.RWMutex
	views map[string]*View
}

// maxViews bounds the views kept per pool.
const maxViews = 4096

// routeKey has the entries of a key of traits, sorted by value, then number, then slice.
type routeKey struct {
	key     string
	entries []entry
}

// entry says that a node with a trait may match a selection, and then reaches a slice. A node that has none of
// the traits of a selection does not match it.
type entry struct {
	value     string
	number    int32 // equal selections have the same
	slice     int32 // position in Pool.Slices; -1 if the selection only tells which devices of slices are on the node
	selection *selection
}

func (e entry) compare(other entry) int {
	return cmp.Or(strings.Compare(e.value, other.value), cmp.Compare(e.number, other.number), cmp.Compare(e.slice, other.slice))
}

// trait is a label of a node, or its name. The zero trait is one of all nodes.
type trait struct{ key, value string }

// nodeName is the key of names, which no label can have.
const nodeName = "/name"

func (p *Pool) setRoutes() {
	r := &p.routes
	numbers := make(map[selectionKey]int32)
	var traits []trait
	for i, slice := range p.Slices {
		position := int32(i)
		// Both is against the rules of the API. Then the nodes that a slice names do not tell which views there are.
		p.Choosy = p.Choosy || slice.reach.own.isSet() && slice.reach.devices != nil
		for s := range slice.reach.selections() {
			p.Choosy = p.Choosy || s.source != nil
			key := s.key()
			number, known := numbers[key]
			if !known {
				number = int32(len(numbers))
				numbers[key] = number
			}
			traits = s.appendTraits(traits[:0])
			for _, t := range traits {
				at := slices.IndexFunc(r.keys, func(k routeKey) bool { return k.key == t.key })
				if at < 0 {
					at, r.keys = len(r.keys), append(r.keys, routeKey{key: t.key})
				}
				r.keys[at].entries = append(r.keys[at].entries, entry{t.value, number, position, s})
			}
			if s == &slice.reach.own && s.isSet() {
				position = -1 // devices choose only among the nodes that the slice reaches
			}
		}
	}
	r.selections = len(numbers)
	for i := range r.keys {
		entries := r.keys[i].entries
		slices.SortFunc(entries, entry.compare)
		r.keys[i].entries = slices.CompactFunc(entries, func(a, b entry) bool { return a.compare(b) == 0 })
	}
	if !p.Choosy {
		p.Elsewhere = p.Named("")
	}
}

// selectionKey is equal for equal selections. Those that never match are alike.
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
			panic("a node selector cannot be encoded: " + err.Error()) // it has nothing but strings
		}
		key.source = string(text)
	}
	return key
}

// appendTraits appends traits such that a node that has none of them does not match.
func (s *selection) appendTraits(to []trait) []trait {
	switch {
	case s.node != "":
		return append(to, trait{nodeName, s.node})
	case s.all:
		return append(to, trait{})
	case s.selector == nil:
		return to
	}
	for i := range s.source.NodeSelectorTerms {
		key, values := required(&s.source.NodeSelectorTerms[i])
		if values == nil {
			return append(to, trait{})
		}
		for _, value := range values {
			to = append(to, trait{key, value})
		}
	}
	return to
}

// required takes the first requirement of a term that lists values: all of them must hold. There are
// no values if there is none.
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

// match visits the entries that lead a node somewhere.
func (r *routes) match(node *corev1.Node, visit func(*entry)) {
	for _, k := range r.keys {
		value, found := "", true
		switch k.key {
		case "":
		case nodeName:
			value = node.Name
		default:
			value, found = node.Labels[k.key]
		}
		if !found {
			continue
		}
		first, _ := slices.BinarySearchFunc(k.entries, value, func(e entry, value string) int { return strings.Compare(e.value, value) })
		matches := false
		for i := first; i < len(k.entries) && k.entries[i].value == value; i++ {
			e := &k.entries[i]
			if i == first || e.number != k.entries[i-1].number {
				matches, _ = e.selection.matches(node) // one that cannot be evaluated has no entry
			}
			if matches {
				visit(e)
			}
		}
	}
}

// look makes the view of a node, nil if the pool does not reach it.
func (p *Pool) look(node *corev1.Node) *View {
	var reaching []int32
	p.routes.match(node, func(e *entry) {
		if e.slice >= 0 {
			reaching = append(reaching, e.slice)
		}
	})
	if len(reaching) == 0 {
		return nil
	}
	slices.Sort(reaching)
	return p.view(node, slices.Compact(reaching))
}

// Named is the view of a node of that name, of which nothing else matters: the pool must
// not be Choosy.
func (p *Pool) Named(node string) *View {
	return p.look(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
}

// Chosen returns the view of a node, nil if the pool does not reach it. The pool must be Choosy, and
// CheckSelectors have returned no error for the node.
func (p *Pool) Chosen(node *corev1.Node) *View {
	r := &p.routes
	var buffer [64]byte
	key := append(buffer[:0], make([]byte, (r.selections+7)/8)...)
	r.match(node, func(e *entry) { key[e.number/8] |= 1 << (e.number % 8) })
	r.mu.RLock()
	view, known := r.views[string(key)]
	r.mu.RUnlock()
	if known {
		return view
	}
	view = p.look(node)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.views == nil || len(r.views) >= maxViews {
		r.views = make(map[string]*View)
	}
	r.views[string(key)] = view
	return view
}

// Nodes lists the names of the nodes that are reached by name, once each. There are none if the
// pool is Choosy.
func (p *Pool) Nodes() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, k := range p.routes.keys {
			if p.Choosy || k.key != nodeName {
				continue
			}
			for i, e := range k.entries {
				if (i == 0 || e.value != k.entries[i-1].value) && !yield(e.value) {
					return
				}
			}
		}
	}
}
