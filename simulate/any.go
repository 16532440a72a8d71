// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync/atomic"

	"github.com/dray-project/dray/simulate/internal/onenode"
)

// ErrUndecidedNode says that the template of a node is not decided yet, so the devices of a pod on it are
// unknown.
var ErrUndecidedNode = errors.New("it is not decided which template the node is of")

// choice lists the templates that the nodes of an undecided template can be of. It is immutable, except for a
// cache.
type choice struct {
	members []*Template // cheapest first
	started atomic.Pointer[started]
}

// started caches the options of a node without pods, for one read set and the taint rules of the options.
type started struct {
	readSet *onenode.ReadSet
	options *options
}

// start returns the options of a node without pods.
func (c *choice) start(l *onenode.ReadSet, rules *taintRules) *options {
	if known := c.started.Load(); known != nil && known.readSet == l && known.options.rules == rules {
		return known.options
	}
	o := &options{choice: c, rules: rules}
	sort := newSorter(o)
	for i, t := range c.members {
		facts := t.under(rules)
		sort.add(facts.State(l, t.held), facts, t.used, int32(i))
	}
	c.started.Store(&started{l, o})
	return o
}

// lacks reports whether no template has a label.
func (c *choice) lacks(label string) bool {
	return label != "" && !slices.ContainsFunc(c.members, func(t *Template) bool {
		_, found := t.spec.Node.Labels[label]
		return found
	})
}

// options are the templates that an undecided node can still be of. They are immutable.
type options struct {
	choice   *choice
	rules    *taintRules // that apply to the templates
	branches []branch
	// doubt is the first undecided or failed answer that removed a template, nil if there was none. That
	// template may have had room.
	doubt *onenode.Answer
}

// branch groups templates whose nodes are in the same state: equal devices with equal use.
type branch struct {
	state  *onenode.State
	groups []optionGroup
}

// optionGroup groups templates with the same resources. Members are positions in the choice, ascending.
type optionGroup struct {
	example *nodeFacts
	// used are the resources in use, by number. Groups with the same amounts share one list.
	used    []int64
	members []int32
}

// sorter groups templates into branches and optionGroups.
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

// withReadSet returns the options with another read set. It may distinguish templates that were in the same state.
func (o *options) withReadSet(l *onenode.ReadSet) *options {
	next := &options{choice: o.choice, rules: o.rules, doubt: o.doubt}
	sort := newSorter(next)
	for _, b := range o.branches {
		for _, g := range b.groups {
			for _, member := range g.members {
				inv := o.facts(member)
				sort.add(inv.State(l, b.state.Uses), inv, g.used, member)
			}
		}
	}
	return next
}

// facts returns those of a template, by its position in the choice.
func (o *options) facts(member int32) *nodeFacts { return o.choice.members[member].under(o.rules) }

// members lists the remaining templates, as positions in the choice, ascending.
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

// cheapest returns the first remaining template, which has the lowest price.
func (o *options) cheapest() *Template {
	least := int32(math.MaxInt32)
	for _, b := range o.branches {
		for _, g := range b.groups {
			least = min(least, slices.Min(g.members))
		}
	}
	return o.choice.members[least]
}

// find returns the branch and group of a template, nil if it was removed.
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

// only returns options with a single remaining template, nil if that was removed.
func (o *options) only(t *Template) *options {
	b, g := o.find(t)
	if b == nil {
		return nil
	}
	member := int32(slices.Index(o.choice.members, t))
	one := optionGroup{example: o.facts(member), used: g.used, members: []int32{member}}
	return &options{choice: o.choice, rules: o.rules, branches: []branch{{state: b.state, groups: []optionGroup{one}}}}
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

// as returns the record of an undecided node for one of its templates. It is false if the template was removed.
func (r *nodeRecord) as(t *Template) (nodeRecord, bool) {
	b, g := r.options.find(t)
	if b == nil {
		return nodeRecord{}, false
	}
	return nodeRecord{nodeDevices: nodeDevices{facts: t.under(r.options.rules), state: b.state}, used: g.used, pods: r.pods}, true
}
