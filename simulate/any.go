// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/simulate/internal/onenode"
)

// ErrUndecidedNode is that it is not decided what a node is like, so that nobody can say which
// devices a pod on it has.
var ErrUndecidedNode = errors.New("it is not decided which template the node is of")

// Any returns a template of nodes that can be of any of the given templates: which type of node, in
// which zone, is not decided yet. A pod has a place on such a node if there is a template on which it
// has one together with all pods that were placed on the node before; the templates on which it has
// none are left out from then on. What remains is what is left of trying each template by itself.
// Sim.Options lists it, and Sim.Decide takes one.
//
// A template for which the search was given up, or failed, is left out, too: pods that have no place
// later are then undecided. So are pods for which the templates would take different devices of pools
// of several nodes.
//
// The result is used as any template, but by Expect. The name stands in place of that of the node of
// a TemplateSpec. It takes time in proportion to the devices of the templates; placing a pod takes
// time in proportion to the classes of templates that nothing so far tells apart, the first time, and
// is a look-up from then on. The error says that there is no template, or which one is there twice or
// comes from Any itself.
func (s *State) Any(name string, templates ...*Template) (*Template, error) {
	if len(templates) == 0 {
		return nil, fmt.Errorf("any %s: there is no template", name)
	}
	for i, t := range templates {
		switch {
		case t == nil:
			return nil, fmt.Errorf("any %s: template %d is nil", name, i)
		case t.of != s.world.resources:
			return nil, fmt.Errorf("any %s: %w", name, t.strange())
		case t.choice != nil:
			return nil, fmt.Errorf("any %s: template %s is undecided itself", name, t.spec.Node.Name)
		case slices.Contains(templates[:i], t):
			return nil, fmt.Errorf("any %s: template %s is there twice", name, t.spec.Node.Name)
		}
	}
	c := &choice{members: slices.Clone(templates)}
	slices.SortStableFunc(c.members, func(a, b *Template) int { return cmp.Compare(a.spec.Price, b.spec.Price) })
	c.start(s.world.ReadSet())
	node := &corev1.Node{}
	node.Name, node.Labels = name, commonLabels(c.members)
	t := &Template{of: s.world.resources, spec: TemplateSpec{Node: node, Price: c.members[0].spec.Price}, choice: c}
	t.facts = &nodeFacts{Inventory: onenode.NewInventory(node, nil, nil), template: t, index: -1}
	return t, nil
}

// commonLabels are those that the nodes of all templates have.
func commonLabels(templates []*Template) map[string]string {
	common := make(map[string]string)
	for label, value := range templates[0].spec.Node.Labels {
		if !slices.ContainsFunc(templates, func(t *Template) bool {
			other, found := t.spec.Node.Labels[label]
			return !found || other != value
		}) {
			common[label] = value
		}
	}
	return common
}

// Options lists the templates that a node can be of, the cheapest first, then in the order in which
// Any was given them. A node of any other template has that one, a real node none.
func (m *Sim) Options(n Node) []*Template {
	rec, found := m.data.record(m.data.here(m.world, n))
	switch {
	case !found || n.template == nil:
		return nil
	case rec.options == nil:
		return []*Template{n.template}
	}
	o := rec.options
	var list []*Template
	for _, member := range o.members() {
		list = append(list, o.choice.members[member])
	}
	return list
}

// Decide says which of its options a node is. The node keeps its handle, name and pods, and is still
// one of the nodes of Any's template. Placement.As gives the claims of pods that were placed before.
// The error is that there is no such node, or that it cannot be of the template; then nothing changed.
func (m *Sim) Decide(n Node, t *Template) error {
	n = m.data.here(m.world, n)
	rec, found := m.data.record(n)
	switch {
	case !found:
		return fmt.Errorf("node %s does not exist", n.Name())
	case rec.options == nil && t != nil && t == n.template:
		return nil
	case rec.options == nil:
		return fmt.Errorf("node %s is not undecided", n.Name())
	}
	only := rec.options.only(t)
	if only == nil {
		return fmt.Errorf("node %s cannot be of the template %s", n.Name(), t.name())
	}
	m.edit(n).options = only
	return nil
}

func (t *Template) name() string {
	if t == nil {
		return "nil"
	}
	return t.spec.Node.Name
}

// As is the placement once its undecided node is of a template. Claims has an error if that was not
// among the options of the node.
func (p *Placement) As(t *Template) Placement {
	decided := *p
	decided.as = t
	return decided
}

// decided are the devices of the node of a placement before the pods of its segment.
func (p *Placement) decided() (nodeDevices, error) {
	before := p.segment.before
	o := before.options
	if o == nil {
		return before, nil
	}
	t := p.as
	if t == nil && len(o.members()) > 1 {
		return nodeDevices{}, fmt.Errorf("node %s: %w", p.Node.Name(), ErrUndecidedNode)
	}
	if t == nil {
		t = o.cheapest()
	}
	one, found := (&nodeRecord{nodeDevices: before}).as(t)
	if !found {
		return nodeDevices{}, fmt.Errorf("node %s cannot be of the template %s", p.Node.Name(), t.name())
	}
	return one.nodeDevices, nil
}

// rename gives a node of a template, and its slices, the names of an undecided node. What they are
// called after the template's node comes first, so that the order of pools stays.
func rename(node *corev1.Node, published []*resourceapi.ResourceSlice, n Node) {
	node.Name = n.Name()
	if _, labelled := node.Labels[corev1.LabelHostname]; labelled {
		node.Labels[corev1.LabelHostname] = node.Name
	}
	for _, slice := range published {
		slice.Name += "-" + n.template.name()
		slice.Spec.Pool.Name += "-" + n.template.name()
		slice.Spec.NodeName = ptr.To(node.Name)
	}
}

// lacks reports whether no template has a label.
func (c *choice) lacks(label string) bool {
	return label != "" && !slices.ContainsFunc(c.members, func(t *Template) bool {
		_, found := t.spec.Node.Labels[label]
		return found
	})
}

// choice is what the nodes of an undecided template can be. It is immutable but for what read sets see.
type choice struct {
	members []*Template // cheapest first
	started atomic.Pointer[started]
}

// started is a node without pods, as a read set sees it.
type started struct {
	readSet *onenode.ReadSet
	options *options
}

// options are the templates that an undecided node can be of. They are immutable.
type options struct {
	choice   *choice
	branches []branch
	// doubt is the first answer for which a template was left out that may have done, nil if there
	// was none.
	doubt *onenode.Answer
}

// branch are templates that are in the same state.
type branch struct {
	state  *onenode.State
	groups []optionGroup
}

// optionGroup are templates with the same resources, as positions in the choice, ascending.
type optionGroup struct {
	example *nodeFacts
	// used is of resources. It is the same list for groups with the same amounts.
	used    []int64
	members []int32
}

// start returns the options of a node without pods.
func (c *choice) start(l *onenode.ReadSet) *options {
	if known := c.started.Load(); known != nil && known.readSet == l {
		return known.options
	}
	o := &options{choice: c}
	sort := newSorter(o)
	for i, t := range c.members {
		sort.add(t.facts.State(l, nil), t.facts, t.used, int32(i))
	}
	c.started.Store(&started{l, o})
	return o
}

// sorter collects templates into branches and groups.
type sorter struct {
	to     *options
	at     map[*onenode.State]int
	groups map[string]int // position in the branch, by state and amounts
	shared map[string][]int64
	key    []byte
}

func newSorter(to *options) *sorter {
	return &sorter{to: to, at: make(map[*onenode.State]int), groups: make(map[string]int), shared: make(map[string][]int64)}
}

func (s *sorter) add(state *onenode.State, inv *nodeFacts, used []int64, members ...int32) {
	at, known := s.at[state]
	if !known {
		at = len(s.to.branches)
		s.at[state] = at
		s.to.branches = append(s.to.branches, branch{state: state})
	}
	s.key = appendAmounts(s.key[:0], used)
	if list, known := s.shared[string(s.key)]; known {
		used = list
	} else {
		s.shared[string(s.key)] = used
	}
	s.key = binary.AppendUvarint(appendAmounts(s.key, inv.allocatable), uint64(at))
	b := &s.to.branches[at]
	position, known := s.groups[string(s.key)]
	if !known {
		s.groups[string(s.key)] = len(b.groups)
		b.groups = append(b.groups, optionGroup{example: inv, used: used, members: slices.Clone(members)})
		return
	}
	b.groups[position].members = append(b.groups[position].members, members...)
}

func appendAmounts(to []byte, list []int64) []byte {
	to = binary.AppendUvarint(to, uint64(len(list)))
	for _, amount := range list {
		to = binary.AppendVarint(to, amount)
	}
	return to
}

// look returns the options as a read set sees them: it may tell templates apart that were in the same
// state.
func (o *options) look(l *onenode.ReadSet) *options {
	next := &options{choice: o.choice, doubt: o.doubt}
	sort := newSorter(next)
	for _, b := range o.branches {
		for _, g := range b.groups {
			for _, member := range g.members {
				inv := o.choice.members[member].facts
				sort.add(inv.State(l, b.state.Uses), inv, g.used, member)
			}
		}
	}
	return next
}

// members lists the templates that remain, as positions in the choice, ascending.
func (o *options) members() []int32 {
	var list []int32
	for _, b := range o.branches {
		for _, g := range b.groups {
			list = append(list, g.members...)
		}
	}
	slices.Sort(list)
	return list
}

// cheapest is the first template that remains.
func (o *options) cheapest() *Template {
	least := int32(math.MaxInt32)
	for _, b := range o.branches {
		for _, g := range b.groups {
			least = min(least, slices.Min(g.members))
		}
	}
	return o.choice.members[least]
}

// find returns where a template is, nil if it does not remain.
func (o *options) find(t *Template) (*branch, *optionGroup) {
	member := slices.Index(o.choice.members, t)
	for i := range o.branches {
		for j := range o.branches[i].groups {
			if g := &o.branches[i].groups[j]; slices.Contains(g.members, int32(member)) {
				return &o.branches[i], g
			}
		}
	}
	return nil, nil
}

// only are the options of which one template remains, nil if it cannot.
func (o *options) only(t *Template) *options {
	b, g := o.find(t)
	if b == nil {
		return nil
	}
	member := int32(slices.Index(o.choice.members, t))
	one := optionGroup{example: t.facts, used: g.used, members: []int32{member}}
	return &options{choice: o.choice, branches: []branch{{state: b.state, groups: []optionGroup{one}}}}
}

// as is a node as it would be of a template. It is false if it cannot be of it.
func (r *nodeRecord) as(t *Template) (nodeRecord, bool) {
	b, g := r.options.find(t)
	if b == nil {
		return nodeRecord{}, false
	}
	return nodeRecord{nodeDevices: nodeDevices{facts: t.facts, state: b.state}, used: g.used, pods: r.pods}, true
}

// same reports whether the same templates remain, in the same states.
func (o *options) same(other *options) bool {
	if o == other || o == nil || other == nil {
		return o == other
	}
	return o.choice == other.choice && o.doubt == other.doubt && slices.EqualFunc(o.branches, other.branches, func(a, b branch) bool {
		return a.state.Same(b.state) && slices.EqualFunc(a.groups, b.groups, func(x, y optionGroup) bool {
			return slices.Equal(x.members, y.members) && slices.Equal(x.used, y.used)
		})
	})
}
