// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/dray-project/dray/simulate/internal/onenode"
)

// stepKey is a pod of a kind that is placed on an undecided node with these options.
type stepKey struct {
	options *options
	kind    *podKind
}

// manySteps is how many answers about undecided nodes are kept.
const manySteps = 1 << 10

// errTakesDiffer says that pools of several nodes would be in two states at once.
var errTakesDiffer = errors.New("the templates that the node can be of take different devices of pools of several nodes")

// onOptions is on for an undecided node.
func (a *asked) onOptions(c *onenode.Call, d *version, n Node, rec *nodeRecord) (reply, error) {
	// What else depends on claims that are shared, or on pools of several nodes, is not remembered.
	separate := a.separate(c.Context)
	key := stepKey{rec.options, a.kind}
	if separate {
		if known, found := a.world.steps.Get(key); found {
			return known.(reply), nil
		}
	}
	s := &step{asked: a, call: *c, version: d, node: n, from: rec.options, next: options{choice: rec.options.choice, doubt: rec.options.doubt}}
	if err := s.run(); err != nil {
		return reply{}, err
	}
	*c = s.call
	found := s.reply()
	if separate && !s.spent && !a.world.options.Memory.Off {
		a.world.steps.Add(key, found)
	}
	return found, nil
}

// step is a pod that is placed on an undecided node, whatever the node may be.
type step struct {
	*asked
	call    onenode.Call // that of the caller stays on its stack
	version *version
	node    Node
	from    *options
	next    options
	// taken is the first answer by which a template remains. changed is set if others may be left
	// out, or something is taken; differs if the templates do not take the same of other pools.
	taken            *onenode.Answer
	changed, differs bool
	// spent is set if the budget of the call was missing somewhere.
	spent bool
}

// part are templates of one branch on which the pod asks for the same, and sees the same.
type part struct {
	number int16
	groups []optionGroup
}

func (s *step) run() error {
	for i := range s.from.branches {
		b := &s.from.branches[i]
		parts := s.parts(b)
		s.changed = s.changed || len(parts) != 1
		for _, p := range parts {
			if err := s.part(b, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// parts divides a branch. Templates on which the pod may not run are left out.
func (s *step) parts(b *branch) []part {
	variants := s.world.onMembers(s.kind, s.next.choice)
	if variants.one && len(s.used) == 0 && (variants.list[0] < 0 || !s.crosses(variants.list[0])) {
		if variants.list[0] < 0 {
			return nil
		}
		return []part{{variants.list[0], b.groups}}
	}
	var parts []part
	at := make(map[string]int)
	for _, g := range b.groups {
		for _, member := range g.members {
			inv := s.next.choice.members[member].facts
			number := s.variant(s.node, inv)
			if number < 0 {
				s.changed = true
				continue
			}
			key, err := s.sight(number, b, inv)
			if err != nil {
				s.leave(&onenode.Answer{Verdict: onenode.Failed, Err: err})
				continue
			}
			i, known := at[string(key)]
			if !known {
				i, at[string(key)] = len(parts), len(parts)
				parts = append(parts, part{number: number})
			}
			parts[i].add(&g, member)
		}
	}
	return parts
}

// crosses reports whether pools of several nodes matter to a variant.
func (s *step) crosses(number int16) bool {
	q := s.question(number)
	return q.Err == nil && len(q.Specs) > 0 && s.world.Crosses(s.call.Context, s.version.around.Shared, q)
}

// sight is equal for templates on which a variant sees the same besides the devices of the node.
func (s *step) sight(number int16, b *branch, inv *nodeFacts) ([]byte, error) {
	key := binary.AppendUvarint(nil, uint64(number))
	q := s.question(number)
	if q.Err != nil || len(q.Specs) == 0 {
		return key, nil //nolint:nilerr // such claims get nothing on any template
	}
	return s.world.AppendSight(s.call.Context, key, inv.Inventory, b.state, s.version.around.Shared, q)
}

// add adds a template of a group.
func (p *part) add(of *optionGroup, member int32) {
	if last := len(p.groups) - 1; last >= 0 && p.groups[last].example == of.example && sameList(p.groups[last].used, of.used) {
		p.groups[last].members = append(p.groups[last].members, member)
		return
	}
	p.groups = append(p.groups, optionGroup{example: of.example, used: of.used, members: []int32{member}})
}

// part places the pod on the templates of a part.
func (s *step) part(b *branch, p part) error {
	demands := s.kind.variantAt(p.number).demands
	groups := make([]optionGroup, 0, len(p.groups))
	for i := range p.groups {
		if g := &p.groups[i]; fitsResources(g.example, g.used, demands, 1) > 0 {
			groups = append(groups, *g)
		}
	}
	if s.changed = s.changed || len(groups) < len(p.groups); len(groups) == 0 {
		return nil
	}
	first := s.next.choice.members[groups[0].members[0]].facts
	taken, err := s.served(&s.call, s.version, s.node, &nodeRecord{nodeDevices: nodeDevices{facts: first, state: b.state}}, p.number)
	if err != nil {
		return err
	}
	switch taken.Verdict {
	case onenode.Fits:
		s.remain(b, taken, groups, demands)
	case onenode.Unfit:
		s.changed = true
	default:
		s.leave(taken)
	}
	return nil
}

// leave leaves templates out that may do.
func (s *step) leave(because *onenode.Answer) {
	s.changed, s.spent = true, s.spent || because == onenode.Spent
	if s.next.doubt == nil {
		s.next.doubt = because
	}
}

// remain keeps templates on which the pod has a place.
func (s *step) remain(b *branch, taken *onenode.Answer, groups []optionGroup, demands []amount) {
	switch {
	case s.taken == nil:
		s.taken = taken
	case !s.sameAround(s.taken, taken):
		s.differs = true
	}
	s.changed = s.changed || taken.Next() != b.state || len(demands) > 0
	if len(demands) > 0 {
		var before, after []int64
		for i := range groups {
			if g := &groups[i]; i == 0 || !sameList(before, g.used) {
				before, after = g.used, addAmounts(g.used, demands, 1)
			}
			groups[i].used = after
		}
	}
	// Templates in one state stay together.
	if at := slices.IndexFunc(s.next.branches, func(other branch) bool { return other.state == taken.Next() }); at >= 0 {
		s.changed = true
		s.next.branches[at].groups = append(s.next.branches[at].groups, groups...)
		return
	}
	s.next.branches = append(s.next.branches, branch{state: taken.Next(), groups: groups})
}

// reply is what comes of all templates.
func (s *step) reply() reply {
	switch {
	case s.taken == nil && s.next.doubt != nil:
		return reply{Answer: s.next.doubt}
	case s.taken == nil:
		return reply{Answer: refusal}
	case s.differs:
		return reply{Answer: &onenode.Answer{Verdict: onenode.Failed, Err: errTakesDiffer}}
	}
	found := reply{&onenode.Answer{Verdict: onenode.Fits, Taken: &onenode.Taken{Shared: s.taken.Shared}, Bound: s.taken.Bound}, s.from}
	if s.changed {
		next := s.next
		found.options = &next
	}
	return found
}

// sameAround reports whether two answers take the same of pools of several nodes, and bind claims that
// pods share alike.
func (a *asked) sameAround(one, other *onenode.Answer) bool {
	for i, e := range a.open {
		if x, y := one.Bound[i], other.Bound[i]; e.claim >= 0 && (x.Node != y.Node || !x.Node && !equality.Semantic.DeepEqual(x.Selector.NodeSelector, y.Selector.NodeSelector)) {
			return false
		}
	}
	return slices.EqualFunc(one.Shared, other.Shared, func(x, y onenode.SharedHolding) bool {
		return x.Pool == y.Pool && x.Binds == y.Binds && x.Device == y.Device && x.Share == y.Share && x.Claim == y.Claim && x.Request == y.Request &&
			equality.Semantic.DeepEqual(x.Consumed, y.Consumed)
	})
}

// roomOfOptions is room for an undecided node: as many as on the template with most room, up to a limit.
func (a *asked) roomOfOptions(c *onenode.Call, rec *nodeRecord, limit int64) (n int64, doubt bool, err error) {
	s := &step{asked: a, call: *c, version: &version{around: &onenode.Surroundings{Shared: a.shared}}, from: rec.options, next: options{choice: rec.options.choice}}
	var open int64
	var because *onenode.Answer
	if because = rec.options.doubt; because != nil {
		open = math.MaxInt64
	}
	for i := range rec.options.branches {
		b := &rec.options.branches[i]
		for _, p := range s.parts(b) {
			found, most, next, err := s.roomOf(b, p, limit)
			if err != nil {
				return 0, false, err
			}
			if n = max(n, found); next != nil && most > open {
				open, because = most, next
			}
		}
	}
	if doubt = because != nil && open > n; doubt {
		s.call.Note(because)
	}
	*c = s.call
	return n, doubt, nil
}

// roomOf is how many pods fit on a part for sure, up to a limit. If more may fit, next says why that is not
// known, and most is how many could.
func (s *step) roomOf(b *branch, p part, limit int64) (n, most int64, next *onenode.Answer, err error) {
	demands := s.kind.variantAt(p.number).demands
	for i := range p.groups {
		most = max(most, fitsResources(p.groups[i].example, p.groups[i].used, demands, limit))
	}
	q := s.question(p.number)
	switch {
	case most == 0:
		return 0, 0, nil, nil
	case q.Err != nil:
		return 0, most, &onenode.Answer{Verdict: onenode.Failed, Err: q.Err}, nil //nolint:nilerr // it is in the answer
	case len(q.Specs) == 0:
		return most, most, nil, nil
	}
	n, doubt, next, err := s.world.Room(&s.call, b.state, q, most)
	if doubt && next == nil {
		next = &onenode.Answer{Verdict: onenode.Fits} // as many as are counted
	}
	if !doubt {
		next = nil
	}
	return n, most, next, err
}

// memberVariants has the variant of a kind by template of a choice. One is set if all are equal.
type memberVariants struct {
	list []int16
	one  bool
}

// onMembers returns the variants on the templates of a choice.
func (w *world) onMembers(k *podKind, c *choice) *memberVariants {
	k = cmp.Or(k.whole, k)
	if known, ok := k.onEach.Get(c); ok {
		return known
	}
	found := &memberVariants{list: make([]int16, len(c.members)), one: true}
	for i, t := range c.members {
		found.list[i] = w.variantOn(k, t.facts.Node)
		found.one = found.one && found.list[i] == found.list[0]
	}
	k.onEach.Add(c, found, w.options.Memory.Kinds)
	return found
}
