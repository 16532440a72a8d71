package pool

import (
	"encoding/json"
	"slices"
	"strings"
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
	views map[string]*View
}

// trait is a label of a node. Its name is the label with the empty key.
type trait struct{ key, value string }

// maxChoices bounds the views kept per pool.
const maxChoices = 4096

// newChoice is nil if some selection cannot be evaluated.
func newChoice(slices []*Slice) *choice {
	c := &choice{by: make(map[trait][]int32), views: make(map[string]*View)}
	known := make(map[string]bool)
	for _, slice := range slices {
		for i := -1; i < len(slice.reach.devices); i++ {
			selection := &slice.reach.own
			if i >= 0 {
				selection = &slice.reach.devices[i]
			}
			if selection.err != nil {
				return nil
			}
			if key := selection.key(); !known[key] {
				known[key] = true
				c.add(selection)
			}
		}
	}
	return c
}

// key is equal for equal selections.
func (s *selection) key() string {
	switch {
	case s.node != "":
		return "n" + s.node
	case s.all:
		return "a"
	case s.selector == nil:
		return ""
	}
	text, err := json.Marshal(s.source)
	if err != nil {
		panic("a node selector cannot be encoded: " + err.Error()) // it has nothing but strings
	}
	return "s" + string(text)
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
	if s.node != "" {
		return []trait{{value: s.node}}, true
	}
	if s.selector == nil {
		return nil, !s.all
	}
	for _, term := range s.source.NodeSelectorTerms {
		some, ok := termTraits(&term)
		if !ok {
			return nil, false
		}
		traits = append(traits, some...)
	}
	return traits, true
}

// termTraits takes the first requirement that lists values: all requirements of a term
// must hold.
func termTraits(term *corev1.NodeSelectorTerm) (traits []trait, ok bool) {
	for _, field := range term.MatchFields {
		if field.Key == "metadata.name" && field.Operator == corev1.NodeSelectorOpIn {
			return listed("", field.Values), true
		}
	}
	for _, label := range term.MatchExpressions {
		if label.Key != "" && label.Operator == corev1.NodeSelectorOpIn {
			return listed(label.Key, label.Values), true
		}
	}
	return nil, false
}

func listed(key string, values []string) []trait {
	traits := make([]trait, len(values))
	for i, value := range values {
		traits[i] = trait{key, value}
	}
	return traits
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
		// An error was ruled out before.
		if matches, _ := c.selections[n].matches(node); matches {
			matching[n/8] |= 1 << (n % 8)
		}
	}
}

// Chosen returns the view of a node, nil if the pool does not reach it. Pools with
// selections that may fail are looked at anew each time.
func (p *Pool) Chosen(node *corev1.Node) (*View, error) {
	if p.choice == nil {
		return p.look(node)
	}
	var buffer [64]byte
	key := p.choice.appendMatching(buffer[:0], node)
	if view, known := p.choice.get(key); known {
		return view, nil
	}
	view, err := p.look(node)
	if err == nil {
		p.choice.put(strings.Clone(string(key)), view)
	}
	return view, err
}

func (c *choice) get(key []byte) (*View, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	view, known := c.views[string(key)]
	return view, known
}

func (c *choice) put(key string, view *View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.views) >= maxChoices {
		clear(c.views)
	}
	c.views[key] = view
}

// look evaluates all selections that matter.
func (p *Pool) look(node *corev1.Node) (*View, error) {
	reaching, err := p.reaching(node)
	if err != nil || len(reaching) == 0 {
		return nil, err
	}
	return p.view(node, reaching), nil
}
