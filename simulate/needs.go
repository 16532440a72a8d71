// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/internal/narrow"
	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// podNeeds is what the pods of a kind need: their claims to allocate, given which shared claims are allocated.
type podNeeds struct {
	world *world
	kind  *podKind
	// open are the claims to be allocated. used are the records of the claims that are allocated already,
	// usedSpecs their specs.
	open      []claimEntry
	used      []claimRecord
	usedSpecs []*onenode.Spec
	mask      string
	// refused is the reason why no node will do, whatever its devices. It is nil if there is none.
	refused error
	// questions are by variant, nil until needed. plain is that of variant 0.
	plain     *onenode.Question
	questions []*onenode.Question
	shared    *onenode.SharedPools
}

// errConsumers says that a claim has the largest allowed number of consumers.
var errConsumers = errors.New("a claim is reserved for as many pods as there can be")

// errOtherDomain says that a claim of the pods is allocated outside the domain of the gang.
var errOtherDomain = errors.New("a claim of the pod has devices of another domain")

// needsOf returns what a pod of the kind needs.
func (d *version) needsOf(w *world, k *podKind) *podNeeds {
	if known := k.needsAlone.Load(); known != nil && known.shared == d.surroundings.Shared {
		return known
	}
	a := &podNeeds{world: w.first, kind: k, shared: d.surroundings.Shared}
	if !k.shares {
		a.open = k.entries
		if a.plain = k.plain; len(k.extended) == 0 {
			k.needsAlone.Store(a) // the only question, so the result does not change
		}
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
		if int(e.claim) < d.claims.Len() {
			rec = *d.claims.At(int(e.claim))
		}
		switch {
		case rec.unusable != nil:
			a.refused = rec.unusable
		case rec.full():
			a.refused = errConsumers
		case rec.allocated && slices.ContainsFunc(k.filters, func(f narrow.Filter) bool { return !d.passes(&rec, &f) }):
			a.refused = errOtherDomain
		case rec.allocated:
			a.used, a.usedSpecs = append(a.used, rec), append(a.usedSpecs, e.spec)
			mask[i] = 'a'
			continue
		}
		a.open = append(a.open, e)
	}
	a.mask = string(mask)
	a.plain = a.question(0)
	return a
}

// passes reports whether all devices of an allocated claim pass a filter.
func (d *version) passes(rec *claimRecord, f *narrow.Filter) bool {
	for _, held := range rec.held {
		on, _ := d.record(held.node)
		for _, h := range held.holdings {
			pool := on.facts.Pool(h.Device)
			if f.Concerns(h.Request) && !f.Passes(pool.ID.Driver, pool.Devices[h.Device-pool.First]) {
				return false
			}
		}
	}
	for _, h := range rec.shared {
		pool := d.surroundings.Shared.Pools[h.Pool]
		if f.Concerns(h.Request) && !f.Passes(pool.ID.Driver, pool.Devices[h.Device]) {
			return false
		}
	}
	return true
}

// question returns the question for a variant.
func (a *podNeeds) question(n int16) *onenode.Question {
	if n == 0 && a.plain != nil {
		return a.plain
	}
	for len(a.questions) <= int(n) {
		a.questions = append(a.questions, nil)
	}
	if known := a.questions[n]; known != nil {
		return known
	}
	a.questions[n] = a.world.Question(append(specsOf(a.open), a.kind.variantAt(n).specs()...))
	return a.questions[n]
}

// separate reports whether pods do not affect each other across nodes: they share no claims, and no pool of
// several nodes can serve them. How many fit on one node then depends on that node only.
func (a *podNeeds) separate(ctx context.Context) bool {
	if a.kind.shares || a.refused != nil {
		return false
	}
	if len(a.kind.extended) > 0 && len(a.shared.Pools) > 0 {
		return false
	}
	return !a.world.Crosses(ctx, a.shared, a.plain)
}

// variant returns the number of the variant for a node, -1 if the pods may not run there.
func (a *podNeeds) variant(n Node, facts *nodeFacts) int16 {
	number := a.world.admittedVariant(a.kind, facts)
	if number < 0 {
		return number
	}
	for i := range a.used {
		if !a.used[i].admits(n, facts.Node) {
			return -1
		}
	}
	return number
}

// exhausts reports whether pods that are placed on a node one after the other are as many as fit in any way. It is so if each asks for a number of devices by one request, and devices are taken whole.
func (a *podNeeds) exhausts(facts *nodeFacts) bool {
	number := a.world.admittedVariant(a.kind, facts)
	if number < 0 {
		return true
	}
	requests := 0
	for _, s := range a.question(number).Specs {
		if !s.Plain() {
			return false
		}
		requests += len(s.Devices.Requests)
	}
	return requests == 0 || requests == 1 && facts.TakenWhole()
}

// variantAnyway returns the variant of a kind for a node, whether or not its pods may run there.
func (w *world) variantAnyway(k *podKind, facts *nodeFacts) int16 {
	if number := w.admittedVariant(k, facts); number >= 0 || len(k.asks) == 0 {
		return max(0, number)
	}
	names, _ := w.fromDevices(k.asks, facts.Node)
	return w.variant(k, names)
}

// served returns the answer for the devices of a node, and a variant.
func (a *podNeeds) served(c *onenode.Call, d *version, n Node, rec *nodeRecord, number int16) (*onenode.Answer, error) {
	q := a.question(number)
	if q.Err != nil {
		return &onenode.Answer{Fit: onenode.Failed, Err: q.Err}, nil //nolint:nilerr // it is in the answer
	}
	if len(q.Specs) == 0 {
		return onenode.Nothing(rec.state), nil
	}
	if a.linked() {
		return a.servedLinked(c, d, n, rec, q)
	}
	return a.world.About(c, rec.facts.Inventory, rec.state, d.surroundings, q)
}

// claimOf returns the number of the claim for the i-th spec of the question, -1 if the claim is the pod's own.
func (a *podNeeds) claimOf(i int32) int32 {
	if int(i) < len(a.open) {
		return a.open[i].claim
	}
	return -1
}

// splitHoldings returns the holdings of one claim of the question.
func splitHoldings(all []onenode.Holding, claim int32) []onenode.Holding {
	return slices.DeleteFunc(slices.Clone(all), func(h onenode.Holding) bool { return h.Claim != claim })
}

// linked reports whether an extension relates open claims to allocated ones, so that those restrict the
// devices.
func (a *podNeeds) linked() bool {
	if len(a.used) == 0 || !a.world.options.Extensions {
		return false
	}
	return slices.ContainsFunc(a.kind.entries, func(e claimEntry) bool { return e.spec.Across() })
}

// errLinkUnknown says that other claims are to match a claim whose devices are not known.
var errLinkUnknown = errors.New("other claims of the pod are to match one whose devices are not known: it has admin access, or is on an undecided node")

// linkedProblem compiles the open claims together with the allocated ones, whose devices have the names that
// the node sees.
func (a *podNeeds) linkedProblem(open []*resourceapi.ResourceClaim, extensions []extension.Claim, n Node, inv *nodeFacts) (*allocator.Problem, error) {
	open, extensions = slices.Clip(open), slices.Clip(extensions)
	for i := range a.used {
		rec, s := &a.used[i], a.usedSpecs[i]
		if n.template != nil && n.template.choice != nil && rec.tied != nil || slices.ContainsFunc(s.Devices.Requests, func(r resourceapi.DeviceRequest) bool {
			return r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess
		}) {
			return nil, errLinkUnknown
		}
		claim := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: s.Devices}}
		claim.Status.Allocation = &resourceapi.AllocationResult{}
		for _, id := range a.devicesOf(rec, n, inv) {
			claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
				resourceapi.DeviceRequestAllocationResult{Driver: id.Driver, Pool: id.Pool, Device: id.Device})
		}
		open, extensions = append(open, claim), append(extensions, s.More)
	}
	return a.world.Compile(open, extensions)
}

// devicesOf names the devices that a claim holds. All devices of other nodes get one placeholder name.
func (a *podNeeds) devicesOf(rec *claimRecord, n Node, inv *nodeFacts) []pools.DeviceID {
	var list []pools.DeviceID
	for _, held := range rec.held {
		for _, h := range held.holdings {
			id := pools.DeviceID{Device: "of another node"}
			if held.node == n {
				id = inv.DeviceID(h.Device)
			}
			list = append(list, id)
		}
	}
	for _, h := range rec.shared {
		list = append(list, a.shared.Pools[h.Pool].DeviceID(h.Device))
	}
	for _, t := range rec.unlisted {
		list = append(list, t.device)
	}
	return list
}

// servedLinked is served for linked claims. The answer is not cached.
func (a *podNeeds) servedLinked(c *onenode.Call, d *version, n Node, rec *nodeRecord, q *onenode.Question) (*onenode.Answer, error) {
	objects, extensions := q.Claims()
	problem, err := a.linkedProblem(objects, extensions, n, rec.facts)
	if err != nil {
		return &onenode.Answer{Fit: onenode.Failed, Err: err}, nil //nolint:nilerr // it is in the answer
	}
	return a.world.AskOnce(c, rec.facts.Inventory, rec.state, d.surroundings, problem)
}

// problemOn returns the problem for a variant on a node, under the node's name.
func (a *podNeeds) problemOn(number int16, n Node, inv *nodeFacts) (*allocator.Problem, error) {
	q := a.question(number)
	if !a.linked() || len(q.Specs) == 0 {
		return q.Problem, nil
	}
	objects, extensions := q.Claims()
	return a.linkedProblem(objects, extensions, n, inv)
}

// demandsOf returns what a pod takes of the resources of a node that devices do not provide there.
func (w *world) demandsOf(pod *corev1.Pod, at *nodeFacts) []amounts.Demand {
	fromDevices, _ := w.fromDevices(podclaims.ExtendedResources(pod), at.Node)
	return w.resources.Needs(pod, fromDevices)
}
