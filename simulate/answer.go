// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// reply is the answer for a node, whose template may be undecided.
type reply struct {
	*onenode.Answer
	// options are those of an undecided node once the pod is there.
	options *options
}

// excluded is the answer for a node that a rule other than devices excludes.
var excluded = &onenode.Answer{Fit: onenode.Unfit}

// on returns the answer for a node, and the number of the variant. The error is the context's.
func (a *podNeeds) on(c *onenode.Call, d *version, n Node, rec *nodeRecord) (reply, int16, error) {
	if rec.options != nil {
		reply, err := a.onOptions(c, d, n, rec)
		return reply, 0, err
	}
	number := a.variant(n, rec.facts)
	if number < 0 || amounts.Room(rec.facts.allocatable, rec.used, a.kind.variantAt(number).demands, 1) == 0 {
		return reply{Answer: excluded}, number, nil
	}
	answer, err := a.served(c, d, n, rec, number)
	return reply{Answer: answer}, number, err
}

// room counts the pods that fit on a node one after the other, up to a limit. The pods must be separate. The
// second result is set if more may fit.
func (a *podNeeds) room(c *onenode.Call, rec *nodeRecord, limit int64) (int64, bool, error) {
	if rec.options != nil {
		return a.roomOfOptions(c, rec, limit)
	}
	number := a.world.admittedVariant(a.kind, rec.facts)
	if number < 0 {
		return 0, false, nil
	}
	most := amounts.Room(rec.facts.allocatable, rec.used, a.kind.variantAt(number).demands, limit)
	if most == 0 {
		return 0, false, nil
	}
	q := a.question(number)
	if q.Err != nil {
		c.Note(&onenode.Answer{Fit: onenode.Failed, Err: q.Err})
		return 0, true, nil //nolint:nilerr // it is in the answer
	}
	if len(q.Specs) == 0 {
		return most, false, nil
	}
	n, doubt, next, err := a.world.Room(c, rec.state, q, most)
	if next != nil {
		c.Note(next)
	}
	return n, doubt, err
}

// alike reports whether it is known without counting that as many pods fit on a real node now as before. The
// pods must be separate.
func (a *podNeeds) alike(c *onenode.Call, before, now *nodeRecord) (bool, error) {
	if before.options != nil || now.options != nil || before.gone != now.gone || !slices.Equal(before.used, now.used) {
		return false, nil
	}
	number := a.world.admittedVariant(a.kind, now.facts)
	if number < 0 {
		return true, nil
	}
	q := a.question(number)
	if q.Err != nil || len(q.Specs) == 0 {
		return false, nil //nolint:nilerr // the count has it
	}
	return a.world.Alike(c, before.state, now.state, q)
}

// stepKey is the key of family.steps: the options of an undecided node, and the kind of the pod that is placed
// there.
type stepKey struct {
	options *options
	kind    *podKind
}

// errTakesDiffer says that the remaining templates would leave pools of several nodes in different states.
var errTakesDiffer = errors.New("the templates that the node can be of take different devices of pools of several nodes")

// onOptions is on for an undecided node.
func (a *podNeeds) onOptions(c *onenode.Call, d *version, n Node, rec *nodeRecord) (reply, error) {
	// Answers that depend on shared claims or on pools of several nodes are not cached.
	separate := a.separate(c.Context)
	key := stepKey{rec.options, a.kind}
	if separate {
		if known, found := a.world.steps.Get(key); found {
			return known.(reply), nil
		}
	}
	s := &step{podNeeds: a, call: *c, version: d, node: n, from: rec.options, next: options{choice: rec.options.choice, rules: rec.options.rules, doubt: rec.options.doubt}}
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

// step places a pod on an undecided node, for all remaining templates.
type step struct {
	*podNeeds
	call    onenode.Call // a copy, so that the caller's stays on its stack
	version *version
	node    Node
	from    *options
	next    options
	// taken is the first answer with which a template remains. changed is set if the options after the step may
	// differ from those before. differs is set if the templates take different devices of pools of several
	// nodes.
	taken            *onenode.Answer
	changed, differs bool
	// spent is set if the budget of the call ran out.
	spent bool
}

// part groups templates of one branch that have the same variant, and reach the same pools of several nodes.
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

// parts divides a branch into parts. Templates on which the pod may not run are removed.
func (s *step) parts(b *branch) []part {
	variants := s.world.admittedVariants(s.kind, s.next.choice)
	if variants.allEqual && len(s.used) == 0 && (variants.list[0] < 0 || !s.crosses(variants.list[0])) {
		if variants.list[0] < 0 {
			return nil
		}
		return []part{{variants.list[0], b.groups}}
	}
	var parts []part
	at := make(map[string]int)
	for _, g := range b.groups {
		for _, member := range g.members {
			inv := s.next.facts(member)
			number := s.variant(s.node, inv)
			if number < 0 {
				s.changed = true
				continue
			}
			key, err := s.sharedKey(number, b, inv)
			if err != nil {
				s.removeTemplates(&onenode.Answer{Fit: onenode.Failed, Err: err})
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

// crosses reports whether pools of several nodes can serve a variant.
func (s *step) crosses(number int16) bool {
	q := s.question(number)
	return q.Err == nil && len(q.Specs) > 0 && s.world.Crosses(s.call.Context, s.version.surroundings.Shared, q)
}

// sharedKey returns a key of what a variant can get from pools of several nodes. Templates with equal keys
// differ in the node's own devices only.
func (s *step) sharedKey(number int16, b *branch, inv *nodeFacts) ([]byte, error) {
	key := binary.AppendUvarint(nil, uint64(number))
	q := s.question(number)
	if q.Err != nil || len(q.Specs) == 0 {
		return key, nil //nolint:nilerr // such claims get nothing on any template
	}
	return s.world.AppendSharedKey(s.call.Context, key, inv.Inventory, b.state, s.version.surroundings.Shared, q)
}

// add adds a template of a group to the part.
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
		if g := &p.groups[i]; amounts.Room(g.example.allocatable, g.used, demands, 1) > 0 {
			groups = append(groups, *g)
		}
	}
	if s.changed = s.changed || len(groups) < len(p.groups); len(groups) == 0 {
		return nil
	}
	first := s.next.facts(groups[0].members[0])
	taken, err := s.served(&s.call, s.version, s.node, &nodeRecord{nodeDevices: nodeDevices{facts: first, state: b.state}}, p.number)
	if err != nil {
		return err
	}
	switch taken.Fit {
	case onenode.Fits:
		s.keepTemplates(b, taken, groups, demands)
	case onenode.Unfit:
		s.changed = true
	default:
		s.removeTemplates(taken)
	}
	return nil
}

// removeTemplates drops templates because of an answer that is not a definite no.
func (s *step) removeTemplates(because *onenode.Answer) {
	s.changed, s.spent = true, s.spent || because == onenode.Spent
	if s.next.doubt == nil {
		s.next.doubt = because
	}
}

// keepTemplates keeps templates on which the pod fits.
func (s *step) keepTemplates(b *branch, taken *onenode.Answer, groups []optionGroup, demands []amounts.Demand) {
	switch {
	case s.taken == nil:
		s.taken = taken
	case !s.takesSameShared(s.taken, taken):
		s.differs = true
	}
	s.changed = s.changed || taken.Next() != b.state || len(demands) > 0
	if len(demands) > 0 {
		var before, after []int64
		for i := range groups {
			if g := &groups[i]; i == 0 || !sameList(before, g.used) {
				before, after = g.used, amounts.Add(g.used, demands, 1)
			}
			groups[i].used = after
		}
	}
	// Templates in one state form one branch.
	if at := slices.IndexFunc(s.next.branches, func(other branch) bool { return other.state == taken.Next() }); at >= 0 {
		s.changed = true
		s.next.branches[at].groups = append(s.next.branches[at].groups, groups...)
		return
	}
	s.next.branches = append(s.next.branches, branch{state: taken.Next(), groups: groups})
}

// reply combines the answers of all templates.
func (s *step) reply() reply {
	switch {
	case s.taken == nil && s.next.doubt != nil:
		return reply{Answer: s.next.doubt}
	case s.taken == nil:
		return reply{Answer: excluded}
	case s.differs:
		return reply{Answer: &onenode.Answer{Fit: onenode.Failed, Err: errTakesDiffer}}
	}
	found := reply{&onenode.Answer{Fit: onenode.Fits, Taken: &onenode.Taken{Shared: s.taken.Shared}, Bound: s.taken.Bound}, s.from}
	if s.changed {
		next := s.next
		found.options = &next
	}
	return found
}

// takesSameShared reports whether two answers take the same devices of pools of several nodes, and bind
// shared claims to the same nodes.
func (a *podNeeds) takesSameShared(one, other *onenode.Answer) bool {
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

// roomOfOptions is room for an undecided node: the number of the template with most room, up to a limit.
func (a *podNeeds) roomOfOptions(c *onenode.Call, rec *nodeRecord, limit int64) (n int64, doubt bool, err error) {
	s := &step{podNeeds: a, call: *c, version: &version{surroundings: &onenode.Surroundings{Shared: a.shared}}, from: rec.options, next: options{choice: rec.options.choice, rules: rec.options.rules}}
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

// roomOf counts the pods that certainly fit on a part, up to a limit. If more may fit, next is the answer that
// ended the count, and most is the number that other resources allow.
func (s *step) roomOf(b *branch, p part, limit int64) (n, most int64, next *onenode.Answer, err error) {
	demands := s.kind.variantAt(p.number).demands
	for i := range p.groups {
		most = max(most, amounts.Room(p.groups[i].example.allocatable, p.groups[i].used, demands, limit))
	}
	q := s.question(p.number)
	switch {
	case most == 0:
		return 0, 0, nil, nil
	case q.Err != nil:
		return 0, most, &onenode.Answer{Fit: onenode.Failed, Err: q.Err}, nil //nolint:nilerr // it is in the answer
	case len(q.Specs) == 0:
		return most, most, nil, nil
	}
	n, doubt, next, err := s.world.Room(&s.call, b.state, q, most)
	if doubt && next == nil {
		next = &onenode.Answer{Fit: onenode.Fits} // the count reached its own limit
	}
	if !doubt {
		next = nil
	}
	return n, most, next, err
}
