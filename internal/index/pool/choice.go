package pool

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// choice finds the view of a pool whose slices or devices choose nodes by selectors:
// there are as many views as ways for nodes to be chosen, which mostly is few.
type choice struct {
	// selections are the different ones among those of all slices and devices.
	selections []*selection
	// by finds the selections that a node may match by its name or a label. It is an
	// index: a selection that it leaves out for a node does not match.
	by   map[trait][]int32
	keys []string // labels in by
	// others are the selections that by does not cover.
	others []int32

	mu    sync.RWMutex
	views map[string]*View // nil for nodes that the pool does not reach
}

// trait is a label of a node. Its name is the label with the empty key.
type trait struct{ key, value string }

// selectionKey is equal for equal selections. Those that never match are alike.
type selectionKey struct {
	node   string
	all    bool
	source string
}

// maxChoices bounds the views kept per pool.
const maxChoices = 4096

func newChoice(all []*Slice) *choice {
	c := &choice{by: make(map[trait][]int32), views: make(map[string]*View)}
	known := make(map[selectionKey]bool)
	for _, slice := range all {
		for s := range slice.reach.selections() {
			if key := s.key(); !known[key] {
				known[key] = true
				c.add(s)
			}
		}
	}
	return c
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

func (c *choice) add(s *selection) {
	number := int32(len(c.selections))
	c.selections = append(c.selections, s)
	traits, ok := s.traits()
	if !ok {
		c.others = append(c.others, number)
		return
	}
	for _, t := range traits {
		if numbers := c.by[t]; len(numbers) == 0 || numbers[len(numbers)-1] != number {
			c.by[t] = append(numbers, number)
		}
		if t.key != "" && !slices.Contains(c.keys, t.key) {
			c.keys = append(c.keys, t.key)
		}
	}
}

// traits are such that a node that has none of them does not match. If there is no such
// list, ok is false.
func (s *selection) traits() (traits []trait, ok bool) {
	switch {
	case s.node != "":
		return []trait{{value: s.node}}, true
	case s.selector == nil:
		return nil, !s.all
	}
	for i := range s.source.NodeSelectorTerms {
		key, values := required(&s.source.NodeSelectorTerms[i])
		if values == nil {
			return nil, false
		}
		for _, value := range values {
			traits = append(traits, trait{key, value})
		}
	}
	return traits, true
}

// required takes the first requirement of a term that lists values: all of them must hold. There are
// no values if there is none.
func required(term *corev1.NodeSelectorTerm) (key string, values []string) {
	for _, field := range term.MatchFields {
		if field.Key == "metadata.name" && field.Operator == corev1.NodeSelectorOpIn {
			return "", field.Values
		}
	}
	for _, label := range term.MatchExpressions {
		if label.Key != "" && label.Operator == corev1.NodeSelectorOpIn {
			return label.Key, label.Values
		}
	}
	return "", nil
}

// appendMatching appends a bit per selection.
func (c *choice) appendMatching(to []byte, node *corev1.Node) []byte {
	first := len(to)
	to = append(to, make([]byte, (len(c.selections)+7)/8)...)
	matching := to[first:]
	c.test(c.others, node, matching)
	c.test(c.by[trait{value: node.Name}], node, matching)
	for _, key := range c.keys {
		if value, found := node.Labels[key]; found {
			c.test(c.by[trait{key, value}], node, matching)
		}
	}
	return to
}

func (c *choice) test(numbers []int32, node *corev1.Node, matching []byte) {
	for _, n := range numbers {
		// Selections that cannot be evaluated have no number here: they match no node.
		if matches, _ := c.selections[n].matches(node); matches {
			matching[n/8] |= 1 << (n % 8)
		}
	}
}

// Chosen returns the view of a node, nil if the pool does not reach it. The pool must be Choosy, and
// CheckSelectors have returned no error for the node.
func (p *Pool) Chosen(node *corev1.Node) *View {
	c := p.choice
	var buffer [64]byte
	key := c.appendMatching(buffer[:0], node)
	c.mu.RLock()
	view, known := c.views[string(key)]
	c.mu.RUnlock()
	if known {
		return view
	}
	view = p.look(node)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.views) >= maxChoices {
		clear(c.views)
	}
	c.views[string(key)] = view
	return view
}

// look evaluates all selections that matter.
func (p *Pool) look(node *corev1.Node) *View {
	var reaching []int32
	for i, slice := range p.Slices {
		// An error was ruled out before.
		if match, _ := slice.reach.reaches(node); match {
			reaching = append(reaching, int32(i))
		}
	}
	if len(reaching) == 0 {
		return nil
	}
	return p.view(node, reaching)
}
