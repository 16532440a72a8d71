// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/podclaims"
	"github.com/dray-project/dray/simulate/internal/amounts"
	"github.com/dray-project/dray/simulate/internal/lists"
	"github.com/dray-project/dray/simulate/internal/table"
)

// With is the State of the real cluster after changes, as Update would have it with the lists of all objects that there are then.
// In these, an object has the place that it had. New ones come behind the others, and so does a pod that was not on its node before.
// What was simulated is not part of it, except for what is expected: see Sim.Expect. The State itself stays as it is.
//
// Changes of pods and claims take time in proportion to these, and to the pods that use the claims. Any other change
// takes as long as Update, and so does one of a claim of a PodGroup. Now and then one of pods and claims does, too: once as many
// objects changed as there are. The first change after Open or Update takes time in proportion to the pods. The error is that of Update.
func (s *State) With(c Changes) (*State, error) {
	for _, list := range []*Cluster{&c.Gone, &c.Set} {
		if err := list.check(); err != nil {
			return nil, err
		}
	}
	c.Set = c.Set.lastOfEach()
	in := s.world.input.with(c)
	if len(s.data.expected) == 0 && c.small() && in.changed <= len(in.read.Pods)+len(in.read.Claims)+fewChanges {
		next, ok, err := s.world.with(&c, in)
		if ok || err != nil {
			return next, err
		}
	}
	return s.Update(in.cluster())
}

// follower makes the world that follows another one, of which pods and claims changed. What a pod on a node is depends on
// the pod and its claims. So pods that change, and those of claims that change, leave their nodes, and come back.
type follower struct {
	before, next *world
	d            *version
	by           *table.Edition
	pods         *lists.Index
	// setPods and setClaims have what each name stands for now.
	setPods   map[types.NamespacedName]*corev1.Pod // nil if gone
	again     map[types.NamespacedName]bool        // made again: it keeps no place
	setClaims map[types.NamespacedName]*resourceapi.ResourceClaim
	// order is the pods that leave and come back, those that were set in the order given.
	order []types.NamespacedName
	moved map[types.NamespacedName]*moved
	// claims are those of which the record changes.
	claims map[int32]bool
}

// moved is a pod that leaves a node, if it was on one. Unless it is set, it comes back as it was.
type moved struct {
	pod   *corev1.Pod
	node  int
	entry *podEntry // nil if it was on none
}

// with is the State of the world after changes of pods and claims. It is false if all has to be read.
func (w *world) with(c *Changes, in *input) (*State, bool, error) {
	pods := w.podsOfWorld()
	if pods == nil {
		return nil, false, nil
	}
	base := w.root.seen()
	data := base.data
	f := &follower{before: w, d: &data, by: new(table.Edition), pods: pods, moved: make(map[types.NamespacedName]*moved), claims: make(map[int32]bool)}
	f.take(c)
	gone, set, ok := f.changedClaims(c)
	if !ok {
		return nil, false, nil
	}
	resolver := w.resolver
	if len(gone)+len(set) > 0 {
		if resolver, ok = w.resolver.Next(gone, set); !ok {
			return nil, false, nil
		}
	}
	f.next = w.follow(resolver, in)
	f.leave()
	f.dropFaults()
	if len(gone)+len(set) > 0 {
		f.next.unlisted = maps.Clone(w.unlisted)
		for pool, ids := range f.next.unlisted {
			f.next.unlisted[pool] = slices.Clip(ids)
		}
	}
	for _, key := range gone {
		f.replaceClaim(key, nil)
	}
	for _, claim := range set {
		f.replaceClaim(lists.Key(claim), claim)
	}
	f.comeBack()
	for _, id := range slices.Sorted(maps.Keys(f.claims)) {
		if claim := f.next.realClaim(id); claim != nil {
			reserveOthers(claim.object, f.d.claims.Edit(int(id), f.by), f.by)
		}
	}
	f.next.podsOfWorld = func() *lists.Index { return f.pods }
	if w.options.Strict && len(f.next.faults) > 0 {
		return nil, false, f.next.faults[0]
	}
	f.next.root = &State{world: f.next, data: data}
	return f.next.root, true, nil
}

// follow is the world that follows, with the same pods and claims so far.
func (w *world) follow(resolver *podclaims.Resolver, in *input) *world {
	next := &world{
		family: w.family, resolver: resolver, input: in, unlisted: w.unlisted, unsettled: maps.Clone(w.unsettled), faults: slices.Clone(w.faults), claims: w.claims,
	}
	next.leaving.Store(w.leaving.Load())
	return next
}

// take finds what is the last of each pod and claim.
func (f *follower) take(c *Changes) {
	f.setPods, f.again = make(map[types.NamespacedName]*corev1.Pod), make(map[types.NamespacedName]bool)
	f.setClaims = make(map[types.NamespacedName]*resourceapi.ResourceClaim)
	for _, pod := range c.Gone.Pods {
		f.setPods[lists.Key(pod)], f.again[lists.Key(pod)] = nil, true
	}
	for _, pod := range c.Set.Pods {
		f.setPods[lists.Key(pod)] = pod
	}
	for _, pod := range slices.Concat(c.Set.Pods, c.Gone.Pods) { // new ones come in the order of Set
		f.affect(lists.Key(pod))
	}
	for _, claim := range c.Gone.Claims {
		f.setClaims[lists.Key(claim)] = nil
	}
	for _, claim := range c.Set.Claims {
		f.setClaims[lists.Key(claim)] = claim
	}
}

// affect notes a pod that leaves, wherever it is.
func (f *follower) affect(key types.NamespacedName) {
	if f.moved[key] != nil {
		return
	}
	m := &moved{}
	if node, found := f.pods.Get(key); found {
		m.node = node
		for entry := f.d.real.At(node).pods; entry != nil; entry = entry.before {
			if lists.Key(entry.pod) == key {
				m.pod, m.entry = entry.pod, entry
			}
		}
	}
	if _, set := f.setPods[key]; m.entry == nil && !set {
		return // neither there nor new
	}
	f.moved[key] = m
	f.order = append(f.order, key)
}

// changedClaims lists the claims that are gone and those that are set, once each, and has the pods leave that they may concern: those that
// use a claim, and those of which a claim was missing. It is false if pods of a group use one.
func (f *follower) changedClaims(c *Changes) (gone []types.NamespacedName, set []*resourceapi.ResourceClaim, ok bool) {
	w := f.before
	done := make(map[types.NamespacedName]bool)
	for _, listed := range slices.Concat(c.Gone.Claims, c.Set.Claims) {
		key := lists.Key(listed)
		if done[key] {
			continue
		}
		done[key] = true
		before, after := w.resolver.Claim(key), f.setClaims[key]
		if before == nil && after == nil {
			continue
		}
		if before != nil {
			rec := f.d.claimRecord(int(w.number(key)))
			for consumer := range rec.consumers.All() {
				if consumer.Resource == "pods" {
					f.affect(types.NamespacedName{Namespace: key.Namespace, Name: consumer.Name})
				} else if !slices.Contains(rec.reserved, consumer) || rec.consumers.Times(consumer) > 1 {
					return nil, nil, false
				}
			}
		}
		if after == nil {
			gone = append(gone, key)
		} else {
			set = append(set, after)
		}
	}
	if len(gone)+len(set) > 0 {
		for key := range w.unsettled { // they may refer to one that is new, or was made for somebody else
			f.affect(key)
		}
	}
	return gone, set, true
}

// leave takes pods from their nodes, but for their place in the list.
func (f *follower) leave() {
	for _, key := range f.order {
		m := f.moved[key]
		if m.entry == nil {
			continue
		}
		rec := f.d.real.Edit(m.node, f.by)
		fromDevices, _ := f.before.fromDevices(podclaims.ExtendedResources(m.pod), rec.facts.Node)
		rec.used = amounts.WithoutZeros(amounts.Add(rec.used, f.before.resources.Needs(m.pod, fromDevices), -1))
		for _, id := range m.entry.claims {
			f.claimOf(id).leave(f.before.consumer(id, m.pod), f.by)
		}
	}
}

// claimOf is the record of a claim to be written to, without those who only reserve it.
func (f *follower) claimOf(id int32) *claimRecord {
	rec := f.d.claims.Edit(int(id), f.by)
	if !f.claims[id] {
		f.claims[id] = true
		for _, consumer := range rec.reserved {
			rec.consumers.Remove(consumer, f.by)
		}
		rec.reserved = nil
	}
	return rec
}

// dropFaults takes away what was wrong of pods and claims that are read again.
func (f *follower) dropFaults() {
	if len(f.next.faults) == 0 {
		return
	}
	again := make(map[string]bool)
	for _, key := range f.order {
		again["Pod "+key.String()] = true
	}
	for key := range f.setClaims {
		again["ResourceClaim "+key.String()] = true
	}
	f.next.faults = slices.DeleteFunc(f.next.faults, func(fault Fault) bool { return again[fault.Object] })
}

// replaceClaim has a claim give back what it holds, and another one in its place hold what that one holds. Nil is none.
func (f *follower) replaceClaim(key types.NamespacedName, claim *resourceapi.ResourceClaim) {
	w := f.next
	id := w.number(key)
	rec := f.claimOf(id)
	for _, held := range rec.held {
		node := f.d.real.Edit(held.node.index, f.by)
		node.state = node.state.Change(held.holdings, false)
	}
	if len(rec.shared) > 0 {
		f.d.around = f.d.around.Change(rec.shared, false)
	}
	for _, t := range rec.unlisted {
		pool := t.device.PoolID()
		if left := slices.DeleteFunc(slices.Clone(w.unlisted[pool]), func(other int32) bool { return other == id }); len(left) > 0 {
			w.unlisted[pool] = left
		} else {
			delete(w.unlisted, pool)
		}
	}
	*rec = claimRecord{consumers: rec.consumers, copies: rec.copies}
	if claim == nil {
		*w.claims.Edit(int(id), f.by) = sharedClaim{}
		return
	}
	w.readClaim(id, claim, rec, f.d, f.by)
	for _, held := range rec.held {
		node := f.d.real.Edit(held.node.index, f.by)
		node.state = node.state.Change(held.holdings, true)
	}
	if len(rec.shared) > 0 {
		f.d.around = f.d.around.Change(rec.shared, true)
	}
}

// comeBack puts pods on their nodes, as they are now.
func (f *follower) comeBack() {
	w := f.next
	for _, key := range f.order {
		m := f.moved[key]
		pod := m.pod
		if set, ok := f.setPods[key]; ok {
			pod = set
		}
		delete(w.unsettled, key)
		node, found := 0, false
		if pod != nil && nodefit.Occupies(pod) {
			node, found = w.nodeOf(pod)
		}
		if !found {
			if m.entry != nil {
				f.drop(m)
				f.pods = f.pods.Without(key)
			}
			continue
		}
		entry := w.enter(pod, node, f.d, f.by)
		for _, id := range entry.claims {
			f.claimOf(id)
		}
		if m.entry != nil && m.node == node && !f.again[key] {
			f.swap(m, entry)
			continue
		}
		if m.entry != nil {
			f.drop(m)
		}
		rec := f.d.real.Edit(node, f.by)
		entry.before, rec.pods = rec.pods, entry
		f.pods = f.pods.With(key, node)
	}
}

// drop takes a pod from the list of its node.
func (f *follower) drop(m *moved) {
	rec := f.d.real.Edit(m.node, f.by)
	id := m.entry.identity()
	rec.pods = rec.pods.without(func(other *podEntry) bool { return other == id })
}

// swap puts a pod in the place of the one before it.
func (f *follower) swap(m *moved, entry *podEntry) {
	rec := f.d.real.Edit(m.node, f.by)
	id := m.entry.identity()
	var newer []*podEntry
	at := rec.pods
	for ; at.identity() != id; at = at.before {
		newer = append(newer, at)
	}
	entry.before = at.before
	rec.pods = entry
	for _, other := range slices.Backward(newer) {
		rec.pods = other.ahead(rec.pods)
	}
}
