package simulate

import (
	"context"
	"errors"
	"slices"
)

// asked is a kind of pods with the claims it shares as they are now.
type asked struct {
	world *world
	kind  *podKind
	// open are the entries to be allocated, used the claims that are allocated already.
	open []claimEntry
	used []claimRecord
	mask string
	// refused says why no node can do, whatever devices it has.
	refused error
	// questions are by variant, plain is the one of variant 0.
	plain     *question
	questions []*question
	shared    *sharedPools
}

// errConsumers says that a claim is reserved for as many as there can be.
var errConsumers = errors.New("a claim is reserved for as many pods as there can be")

// asked returns what a pod of the kind has to get.
func (d *version) asked(w *world, k *podKind) *asked {
	a := &asked{world: w, kind: k, shared: d.shared}
	if !k.shares {
		a.open = k.entries
		a.plain = k.plain()
		return a
	}
	mask := make([]byte, len(k.entries))
	for i, e := range k.entries {
		mask[i] = 'o'
		if e.claim < 0 {
			a.open = append(a.open, e)
			continue
		}
		var rec claimRecord
		if int(e.claim) < d.claims.length {
			rec = *d.claims.at(int(e.claim))
		}
		switch {
		case rec.unusable != nil:
			a.refused = rec.unusable
		case rec.full():
			a.refused = errConsumers
		case rec.allocated:
			a.used = append(a.used, rec)
			mask[i] = 'a'
			continue
		}
		a.open = append(a.open, e)
	}
	a.mask = string(mask)
	a.plain = a.question(0)
	return a
}

// question is the one for a variant.
func (a *asked) question(n int16) *question {
	if n == 0 && a.plain != nil {
		return a.plain
	}
	for len(a.questions) <= int(n) {
		a.questions = append(a.questions, nil)
	}
	if known := a.questions[n]; known != nil {
		return known
	}
	specs := make([]*spec, 0, len(a.open)+1)
	for _, e := range a.open {
		specs = append(specs, e.spec)
	}
	if extended := a.kind.variantAt(n).spec; extended != nil {
		specs = append(specs, extended)
	}
	a.questions[n] = a.world.question(specs)
	return a.questions[n]
}

// separate reports whether each pod stands for itself: it shares no claims, and no pool of several
// nodes can serve it. Then how many fit on one node does not depend on another.
func (a *asked) separate(ctx context.Context) bool {
	if a.kind.shares || a.refused != nil {
		return false
	}
	if len(a.kind.extended) > 0 && len(a.shared.pools) > 0 {
		return false
	}
	return len(a.world.crossing(ctx, a.shared, a.plain).positions) == 0
}

// variant returns the one for a node, -1 if the pods may not run there.
func (a *asked) variant(n Node, rec *nodeRecord) int16 {
	number := a.world.on(a.kind, rec.inventory)
	if number < 0 {
		return number
	}
	for i := range a.used {
		if !a.used[i].admits(n, rec.inventory.node) {
			return -1
		}
	}
	return number
}

// fitsResources is how many times the demands fit beside what is used, at most limit.
func fitsResources(rec *nodeRecord, demands []amount, limit int64) int64 {
	allocatable := rec.inventory.allocatable
	if allocatable == nil {
		return limit
	}
	for _, d := range demands {
		total := int64(notListed)
		if d.resource < len(allocatable) {
			total = allocatable[d.resource]
		}
		if total == notListed {
			if d.resource == 0 {
				continue // the number of pods is often left out
			}
			return 0
		}
		if d.resource < len(rec.used) {
			total -= rec.used[d.resource]
		}
		limit = min(limit, max(0, total/d.value))
	}
	return limit
}

// refusal is the answer for a node that does not come into question.
var refusal = &answer{verdict: unfit}

// takesNothing is the answer for pods that have nothing to be allocated.
func takesNothing(s *nodeState) *answer { return &answer{verdict: fits, next: s} }

// on returns the answer for one node, and the variant. The error is the context's.
func (a *asked) on(c *call, d *version, n Node, rec *nodeRecord) (*answer, int16, error) {
	number := a.variant(n, rec)
	if number < 0 || fitsResources(rec, a.kind.variantAt(number).demands, 1) == 0 {
		return refusal, number, nil
	}
	q := a.question(number)
	if q.err != nil {
		return &answer{verdict: failed, err: q.err}, number, nil //nolint:nilerr // it is in the answer
	}
	if len(q.specs) == 0 {
		return takesNothing(rec.state), number, nil
	}
	v, err := a.world.crossing(c.ctx, d.shared, q).view(rec.inventory, d.lens)
	if err != nil {
		return &answer{verdict: failed, err: err}, number, nil //nolint:nilerr // it is in the answer
	}
	if v == nil {
		answer, err := a.world.ask(c, rec.state, q)
		return answer, number, err
	}
	answer, err := a.world.askAcross(c, d, rec, v, q)
	return answer, number, err
}

// room is how many pods fit on a node, one after the other. The pods must be separate.
func (a *asked) room(c *call, rec *nodeRecord) (int64, bool, error) {
	number := a.world.on(a.kind, rec.inventory)
	if number < 0 {
		return 0, false, nil
	}
	most := fitsResources(rec, a.kind.variantAt(number).demands, unlimited)
	if most == 0 {
		return 0, false, nil
	}
	q := a.question(number)
	if q.err != nil {
		c.note(&answer{verdict: failed, err: q.err})
		return 0, true, nil //nolint:nilerr // it is in the answer
	}
	if len(q.specs) == 0 {
		return most, false, nil
	}
	n, doubt, err := a.world.room(c, rec.state, q)
	return min(n, most), doubt && n < most, err
}

// claimOf returns the claim for the i-th spec of the question, -1 if it is the pod's own.
func (a *asked) claimOf(i int32) int32 {
	if int(i) < len(a.open) {
		return a.open[i].claim
	}
	return -1
}

// splitHoldings returns those of one claim of the question.
func splitHoldings(all []holding, claim int32) []holding {
	return slices.DeleteFunc(slices.Clone(all), func(h holding) bool { return h.claim != claim })
}
