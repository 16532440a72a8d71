// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/onenode"
	"github.com/dray-project/dray/simulate/internal/table"
)

// sharedClaim is a claim that several pods may use, or that exists already.
type sharedClaim struct {
	key    types.NamespacedName
	object *resourceapi.ResourceClaim
	spec   *onenode.Spec
}

// claimRecord is what a State knows of such a claim. It is a value; its lists are immutable.
type claimRecord struct {
	allocated bool
	// consumers are those who use the claim. A PodGroup is there once for each of its pods.
	consumers table.Bag[resourceapi.ResourceClaimConsumerReference]
	// reserved are those among them that only status.reservedFor lists. copies is how often pods were placed again,
	// as others like them: each time is one more who uses the claim.
	reserved []resourceapi.ResourceClaimConsumerReference
	copies   int
	// held is what it holds on nodes, shared what it holds of pools of several nodes.
	held   []heldOn
	shared []onenode.SharedHolding
	// tied is the node on which alone the claim can be used; without, the selector says where.
	tied     *Node
	selector *nodeaffinity.NodeSelector
	// unlisted is what it holds of devices that no slice lists. They take nothing until they are expected.
	unlisted []unlistedHolding
	// unusable says why no further pod may use the claim.
	unusable error
}

// heldOn is what a claim holds of the devices of one node.
type heldOn struct {
	node     Node
	holdings []onenode.Holding
}

// unlistedHolding is a holding of which the device has no position yet.
type unlistedHolding struct {
	device pools.DeviceID
	onenode.Holding
}

// only reports whether a claim holds devices of one real node at most, and of no pool that may come to be
// listed on another.
func (r *claimRecord) only(node int) bool {
	return len(r.unlisted) == 0 && !slices.ContainsFunc(r.held, func(h heldOn) bool { return h.node.template != nil || h.node.index != node })
}

// usedBy reports whether somebody is the only one who uses a claim, once, and it is open again without.
func (r *claimRecord) usedBy(consumer resourceapi.ResourceClaimConsumerReference) bool {
	return r.unusable == nil && r.consumers.Len() == 1 && r.consumers.Times(consumer) == 1
}

// full reports whether as many use the claim as may. A PodGroup counts once.
func (r *claimRecord) full() bool {
	return r.consumers.Len()+r.copies >= resourceapi.ResourceClaimReservedForMaxSize
}

// join adds a consumer, leave takes it away once.
func (r *claimRecord) join(consumer resourceapi.ResourceClaimConsumerReference, by *table.Edition) {
	if r.hasPod(consumer) {
		r.copies++
	}
	r.consumers.Add(consumer, by)
}

func (r *claimRecord) leave(consumer resourceapi.ResourceClaimConsumerReference, by *table.Edition) {
	r.consumers.Remove(consumer, by)
	if r.hasPod(consumer) {
		r.copies--
	}
}

// hasPod reports whether a consumer is a pod that is on a node and uses the claim.
func (r *claimRecord) hasPod(consumer resourceapi.ResourceClaimConsumerReference) bool {
	placed := r.consumers.Times(consumer)
	if slices.Contains(r.reserved, consumer) {
		placed--
	}
	return placed > 0 && consumer.Resource == "pods"
}

// claim returns the number of a claim, which it gets the first time.
func (w *world) claim(key types.NamespacedName, object *resourceapi.ResourceClaim) int32 {
	s, err := w.specOfClaim(object)
	if err != nil {
		s = w.Spec(&object.Spec.Devices, extension.Claim{}) // pods that refer to the claim are an error
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if id, known := w.claimIDs[key]; known {
		return id
	}
	id := int32(len(w.claims))
	w.claims = append(w.claims, &sharedClaim{key: key, object: object, spec: s})
	w.claimIDs[key] = id
	return id
}

func (w *world) claimNumbered(id int32) *sharedClaim {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.claims[id]
}

// addClaims reads what claims hold.
func (w *world) addClaims(c *Cluster, d *version, by *table.Edition) {
	held := make(map[int][]onenode.Holding)
	for _, claim := range c.Claims {
		key := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
		if _, twice := w.claimIDs[key]; twice {
			w.fault("ResourceClaim", key, fmt.Errorf("there are two of that name"))
			continue
		}
		rec := d.claims.Edit(int(w.claim(key, claim)), by)
		if claim.DeletionTimestamp != nil {
			rec.unusable = fmt.Errorf("claim %s is being deleted", key)
		}
		if claim.Status.Allocation == nil {
			continue
		}
		rec.allocated = true
		if s := claim.Status.Allocation.NodeSelector; s != nil {
			selector, err := nodeaffinity.NewNodeSelector(s)
			if err != nil {
				rec.unusable = fmt.Errorf("claim %s: status.allocation.nodeSelector: %w", key, err)
				w.fault("ResourceClaim", key, rec.unusable)
			}
			rec.selector = selector
		}
		w.hold(claim, rec, d)
		for _, h := range rec.held {
			held[h.node.index] = append(held[h.node.index], h.holdings...)
		}
		for _, h := range rec.shared {
			d.around.Uses[h.Pool] = d.around.Uses[h.Pool].Change([]onenode.Holding{h.Holding}, true)
		}
	}
	l := w.ReadSet()
	d.readSet = l
	for i, inv := range w.nodes {
		d.real.Edit(i, by).state = inv.State(l, onenode.Uses(nil).Change(held[i], true))
	}
}

// hold finds the devices that an allocated claim holds. Those that no slice lists take nothing as
// long as that is so.
func (w *world) hold(claim *resourceapi.ResourceClaim, rec *claimRecord, d *version) {
	onNode := make(map[int][]onenode.Holding)
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		if result.AdminAccess != nil && *result.AdminAccess {
			continue
		}
		id := pools.DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
		h := onenode.Holding{Request: result.Request}
		if result.ShareID != nil && w.gates.ConsumableCapacity {
			h.Share, h.Consumed = true, result.ConsumedCapacity
		}
		if shared, found := d.around.Shared.Holding(id, h); found {
			rec.shared = append(rec.shared, shared)
			continue
		}
		if index, position, found := d.deviceOfNode(w, id); found {
			h.Device = position
			onNode[index] = append(onNode[index], h)
			continue
		}
		rec.unlisted = append(rec.unlisted, unlistedHolding{id, h})
		w.unlisted[id.PoolID()] = append(w.unlisted[id.PoolID()], w.claimIDs[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}])
	}
	for index, holdings := range onNode {
		rec.held = append(rec.held, heldOn{node: Node{index: index, name: w.nodes[index].Node.Name}, holdings: holdings})
	}
}

// reserveOthers counts as consumers those in status.reservedFor that are no pods of the cluster.
func (w *world) reserveOthers(d *version, by *table.Edition) {
	type name struct{ resource, name string }
	for id, shared := range w.claims {
		if len(shared.object.Status.ReservedFor) == 0 {
			continue
		}
		rec := d.claims.Edit(id, by)
		known := make(map[name]types.UID)
		for consumer := range rec.consumers.All() {
			known[name{consumer.Resource, consumer.Name}] = consumer.UID
		}
		for _, consumer := range shared.object.Status.ReservedFor {
			if uid, found := known[name{consumer.Resource, consumer.Name}]; !found || uid != "" && uid != consumer.UID {
				rec.consumers.Add(consumer, by)
				rec.reserved = append(slices.Clip(rec.reserved), consumer)
			}
		}
	}
}

// admits reports whether an allocated claim can be used on a node.
func (r *claimRecord) admits(n Node, node *corev1.Node) bool {
	if r.tied != nil {
		return *r.tied == n
	}
	return r.selector == nil || r.selector.Match(node)
}

// asked is a kind of pods with the claims it shares as they are now.
type asked struct {
	world *world
	kind  *podKind
	// open are the entries to be allocated, used the claims that are allocated already.
	open      []claimEntry
	used      []claimRecord
	usedSpecs []*onenode.Spec
	mask      string
	// refused says why no node can do, whatever devices it has.
	refused error
	// questions are by variant, plain is the one of variant 0.
	plain     *onenode.Question
	questions []*onenode.Question
	shared    *onenode.SharedPools
}

// errConsumers says that a claim is reserved for as many as there can be.
var errConsumers = errors.New("a claim is reserved for as many pods as there can be")

// asked returns what a pod of the kind has to get.
func (d *version) asked(w *world, k *podKind) *asked {
	if known := k.alone.Load(); known != nil && known.shared == d.around.Shared {
		return known
	}
	a := &asked{world: w, kind: k, shared: d.around.Shared}
	if !k.shares {
		a.open = k.entries
		if a.plain = k.plain; len(k.extended) == 0 {
			k.alone.Store(a) // there is no other question, so it does not change any more
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
		case rec.allocated && slices.ContainsFunc(k.filters, func(f filter) bool { return !f.passes(d, &rec) }):
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

// question is the one for a variant.
func (a *asked) question(n int16) *onenode.Question {
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

// separate reports whether each pod stands for itself: it shares no claims, and no pool of several
// nodes can serve it. Then how many fit on one node does not depend on another.
func (a *asked) separate(ctx context.Context) bool {
	if a.kind.shares || a.refused != nil {
		return false
	}
	if len(a.kind.extended) > 0 && len(a.shared.Pools) > 0 {
		return false
	}
	return !a.world.Crosses(ctx, a.shared, a.plain)
}

// variant returns the one for a node, -1 if the pods may not run there.
func (a *asked) variant(n Node, facts *nodeFacts) int16 {
	number := a.world.on(a.kind, facts)
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

// fitsResources is how many times the demands fit beside what is used, at most limit.
func fitsResources(node *nodeFacts, used []int64, demands []amount, limit int64) int64 {
	allocatable := node.allocatable
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
		if d.resource < len(used) {
			total -= used[d.resource]
		}
		limit = min(limit, max(0, total/d.value))
	}
	return limit
}

// reply is the answer for a node, decided or not.
type reply struct {
	*onenode.Answer
	// options are those of an undecided node after it.
	options *options
}

// refusal is the answer for a node that does not come into question.
var refusal = &onenode.Answer{Verdict: onenode.Unfit}

// on returns the answer for one node, and the variant. The error is the context's.
func (a *asked) on(c *onenode.Call, d *version, n Node, rec *nodeRecord) (reply, int16, error) {
	if rec.options != nil {
		reply, err := a.onOptions(c, d, n, rec)
		return reply, 0, err
	}
	number := a.variant(n, rec.facts)
	if number < 0 || fitsResources(rec.facts, rec.used, a.kind.variantAt(number).demands, 1) == 0 {
		return reply{Answer: refusal}, number, nil
	}
	answer, err := a.served(c, d, n, rec, number)
	return reply{Answer: answer}, number, err
}

// served returns the answer of the devices for a variant.
func (a *asked) served(c *onenode.Call, d *version, n Node, rec *nodeRecord, number int16) (*onenode.Answer, error) {
	q := a.question(number)
	if q.Err != nil {
		return &onenode.Answer{Verdict: onenode.Failed, Err: q.Err}, nil //nolint:nilerr // it is in the answer
	}
	if len(q.Specs) == 0 {
		return onenode.Nothing(rec.state), nil
	}
	if a.linked() {
		return a.servedLinked(c, d, n, rec, q)
	}
	return a.world.About(c, rec.facts.Inventory, rec.state, d.around, q)
}

// room is how many pods fit on a node, one after the other, up to a limit. The pods must be separate.
func (a *asked) room(c *onenode.Call, rec *nodeRecord, limit int64) (int64, bool, error) {
	if rec.options != nil {
		return a.roomOfOptions(c, rec, limit)
	}
	number := a.world.on(a.kind, rec.facts)
	if number < 0 {
		return 0, false, nil
	}
	most := fitsResources(rec.facts, rec.used, a.kind.variantAt(number).demands, limit)
	if most == 0 {
		return 0, false, nil
	}
	q := a.question(number)
	if q.Err != nil {
		c.Note(&onenode.Answer{Verdict: onenode.Failed, Err: q.Err})
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

// alike reports whether it is known that as many pods fit on a real node as on the same node before. The pods must be separate.
func (a *asked) alike(c *onenode.Call, before, now *nodeRecord) (bool, error) {
	if before.options != nil || now.options != nil || before.gone != now.gone || !slices.Equal(before.used, now.used) {
		return false, nil
	}
	number := a.world.on(a.kind, now.facts)
	if number < 0 {
		return true, nil
	}
	q := a.question(number)
	if q.Err != nil || len(q.Specs) == 0 {
		return false, nil //nolint:nilerr // the count has it
	}
	return a.world.Alike(c, before.state, now.state, q)
}

// claimOf returns the claim for the i-th spec of the question, -1 if it is the pod's own.
func (a *asked) claimOf(i int32) int32 {
	if int(i) < len(a.open) {
		return a.open[i].claim
	}
	return -1
}

// splitHoldings returns those of one claim of the question.
func splitHoldings(all []onenode.Holding, claim int32) []onenode.Holding {
	return slices.DeleteFunc(slices.Clone(all), func(h onenode.Holding) bool { return h.Claim != claim })
}
