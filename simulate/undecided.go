package simulate

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
)

// stepKey is a pod of a kind that is placed on an undecided node in a state.
type stepKey struct {
	state uint64
	kind  *podKind
}

// manySteps is how many answers about undecided nodes are kept.
const manySteps = 1 << 10

// errTakesDiffer says that pools of several nodes would be in two states at once.
var errTakesDiffer = errors.New("the templates that the node can be of take different devices of pools of several nodes")

// onOptions is on for an undecided node.
func (a *asked) onOptions(c *call, d *version, n Node, rec *nodeRecord) (*answer, error) {
	// What else depends on claims that are shared, or on pools of several nodes, is not remembered.
	separate := a.separate(c.ctx)
	key := stepKey{rec.state.number, a.kind}
	if separate {
		if known, found := a.world.steps.Get(key); found {
			return known.(*answer), nil
		}
	}
	s := &step{asked: a, call: c, version: d, node: n, from: rec.state, next: options{choice: rec.state.options.choice, doubt: rec.state.options.doubt}}
	if err := s.run(); err != nil {
		return nil, err
	}
	found := s.answer()
	if separate && !s.spent {
		a.world.steps.Add(key, found)
	}
	return found, nil
}

// step is a pod that is placed on an undecided node, whatever the node may be.
type step struct {
	*asked
	call    *call
	version *version
	node    Node
	from    *nodeState
	next    options
	// taken is the first answer by which a template remains. changed is set if others may be left
	// out, or something is taken; differs if the templates do not take the same of other pools.
	taken            *answer
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
	for i := range s.from.options.branches {
		b := &s.from.options.branches[i]
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
	if variants.one && len(s.used) == 0 && (variants.list[0] < 0 || len(s.crossed(variants.list[0])) == 0) {
		if variants.list[0] < 0 {
			return nil
		}
		return []part{{variants.list[0], b.groups}}
	}
	var parts []part
	at := make(map[string]int)
	for _, g := range b.groups {
		for _, member := range g.members {
			inv := s.next.choice.members[member].inventory
			number := s.variant(s.node, &nodeRecord{inventory: inv})
			if number < 0 {
				s.changed = true
				continue
			}
			key, err := s.sight(number, inv)
			if err != nil {
				s.leave(&answer{verdict: failed, err: err})
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

// crossed are the pools of several nodes that matter to a variant.
func (s *step) crossed(number int16) []int {
	q := s.question(number)
	if q.err != nil || len(q.specs) == 0 {
		return nil
	}
	return s.world.crossing(s.call.ctx, s.version.shared, q).positions
}

// sight is equal for templates on which a variant sees the same besides the devices of the node.
func (s *step) sight(number int16, inv *inventory) ([]byte, error) {
	key := binary.AppendUvarint(nil, uint64(number))
	q := s.question(number)
	if q.err != nil || len(q.specs) == 0 {
		return key, nil //nolint:nilerr // such claims get nothing on any template
	}
	v, err := s.world.crossing(s.call.ctx, s.version.shared, q).view(inv, s.version.lens)
	if err != nil || v == nil {
		return key, err
	}
	return append(append(key, 1), v.key...), nil
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
		if g := &p.groups[i]; fitsResources(&nodeRecord{inventory: g.example, used: g.used}, demands, 1) > 0 {
			groups = append(groups, *g)
		}
	}
	if s.changed = s.changed || len(groups) < len(p.groups); len(groups) == 0 {
		return nil
	}
	first := s.next.choice.members[groups[0].members[0]].inventory
	taken, err := s.served(s.call, s.version, s.node, &nodeRecord{inventory: first, state: b.state}, p.number)
	if err != nil {
		return err
	}
	switch taken.verdict {
	case fits:
		s.remain(b, taken, groups, demands)
	case unfit:
		s.changed = true
	default:
		s.leave(taken)
	}
	return nil
}

// leave leaves templates out that may do.
func (s *step) leave(because *answer) {
	s.changed, s.spent = true, s.spent || because == spent
	if s.next.doubt == nil {
		s.next.doubt = because
	}
}

// remain keeps templates on which the pod has a place.
func (s *step) remain(b *branch, taken *answer, groups []optionGroup, demands []amount) {
	switch {
	case s.taken == nil:
		s.taken = taken
	case !s.sameAround(s.taken, taken):
		s.differs = true
	}
	s.changed = s.changed || taken.next != b.state || len(demands) > 0
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
	if at := slices.IndexFunc(s.next.branches, func(other branch) bool { return other.state == taken.next }); at >= 0 {
		s.changed = true
		s.next.branches[at].groups = append(s.next.branches[at].groups, groups...)
		return
	}
	s.next.branches = append(s.next.branches, branch{state: taken.next, groups: groups})
}

// answer is what comes of all templates.
func (s *step) answer() *answer {
	switch {
	case s.taken == nil && s.next.doubt != nil:
		return s.next.doubt
	case s.taken == nil:
		return refusal
	case s.differs:
		return &answer{verdict: failed, err: errTakesDiffer}
	}
	found := &answer{verdict: fits, shared: s.taken.shared, bound: s.taken.bound, next: s.from}
	if s.changed {
		next := s.next
		found.next = newOptions(&next)
	}
	return found
}

// sameAround reports whether two answers take the same of pools of several nodes, and bind claims that
// pods share alike.
func (a *asked) sameAround(one, other *answer) bool {
	for i, e := range a.open {
		if x, y := one.bound[i], other.bound[i]; e.claim >= 0 && (x.node != y.node || !x.node && !equality.Semantic.DeepEqual(x.selector.NodeSelector, y.selector.NodeSelector)) {
			return false
		}
	}
	return slices.EqualFunc(one.shared, other.shared, func(x, y sharedHolding) bool {
		return x.pool == y.pool && x.binds == y.binds && x.device == y.device && x.share == y.share && x.claim == y.claim && x.request == y.request &&
			equality.Semantic.DeepEqual(x.consumed, y.consumed)
	})
}

// roomOfOptions is room for an undecided node: as many as on the template with most room.
func (a *asked) roomOfOptions(c *call, rec *nodeRecord) (n int64, doubt bool, err error) {
	s := &step{asked: a, call: c, version: &version{surroundings: surroundings{shared: a.shared}, lens: a.world.lens.Load()}, from: rec.state, next: options{choice: rec.state.options.choice}}
	var open int64
	var because *answer
	if because = rec.state.options.doubt; because != nil {
		open = math.MaxInt64
	}
	for i := range rec.state.options.branches {
		b := &rec.state.options.branches[i]
		for _, p := range s.parts(b) {
			found, most, next, err := s.roomOf(b, p)
			if err != nil {
				return 0, false, err
			}
			if n = max(n, found); next != nil && most > open {
				open, because = most, next
			}
		}
	}
	if because == nil || open <= n {
		return n, false, nil
	}
	c.note(because)
	return n, true, nil
}

// roomOf is how many pods fit on a part for sure. If more may fit, next says why that is not known,
// and most is how many could.
func (s *step) roomOf(b *branch, p part) (n, most int64, next *answer, err error) {
	demands := s.kind.variantAt(p.number).demands
	for i := range p.groups {
		most = max(most, fitsResources(&nodeRecord{inventory: p.groups[i].example, used: p.groups[i].used}, demands, unlimited))
	}
	q := s.question(p.number)
	switch {
	case most == 0:
		return 0, 0, nil, nil
	case q.err != nil:
		return 0, most, &answer{verdict: failed, err: q.err}, nil //nolint:nilerr // it is in the answer
	case len(q.specs) == 0:
		return most, most, nil, nil
	}
	n, doubt, next, err := s.world.room(s.call, b.state, q)
	if doubt && next == nil {
		next = &answer{verdict: fits} // as many as are counted
	}
	if !doubt {
		next = nil
	}
	return min(n, most), most, next, err
}

// memberVariants has the variant of a kind by template of a choice. One is set if all are equal.
type memberVariants struct {
	list []int16
	one  bool
}

// onMembers returns the variants on the templates of a choice.
func (w *world) onMembers(k *podKind, c *choice) *memberVariants {
	k = cmp.Or(k.whole, k)
	if known, ok := k.onNew.Load(c); ok {
		return known.(*memberVariants)
	}
	found := &memberVariants{list: make([]int16, len(c.members)), one: true}
	for i, t := range c.members {
		found.list[i] = w.on(k, t.inventory)
		found.one = found.one && found.list[i] == found.list[0]
	}
	k.onNew.Store(c, found)
	return found
}
