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

// With returns the State of the real cluster after changes. It equals Update with the lists of all objects
// after the changes. There, an updated object keeps its position. A new one is appended, and so is a pod that
// was not on its node before. Simulated changes are not part of it, except for Sim.Expect. The receiver does
// not change.
//
// Changes of pods and claims take time in proportion to the changes, and to the pods that use the claims. Any
// other change takes as long as Update, and so does a change of a PodGroup's claim. So does one call after as
// many objects changed as there are. The first change after Open or Update takes time in proportion to the
// pods. The error is that of Update.
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

// follower derives a world from the one before it, of which pods and claims changed. What is recorded of a pod
// on a node depends on the pod and its claims. So changed pods, and the pods of changed claims, are taken off
// their nodes and put back.
type follower struct {
	before, next *world
	d            *version
	by           *table.Edition
	pods         *lists.Index
	// setPods and setClaims have the new object by name, nil if it was deleted.
	setPods   map[types.NamespacedName]*corev1.Pod // nil if deleted
	again     map[types.NamespacedName]bool        // deleted and created again: the pod loses its position
	setClaims map[types.NamespacedName]*resourceapi.ResourceClaim
	// order lists the pods that are taken off and put back: those of Changes.Set first, in the order given.
	order []types.NamespacedName
	moved map[types.NamespacedName]*moved
	// claims are the numbers of the claims whose record changes.
	claims map[int32]bool
}

// moved is a pod that may be taken off its node and put back. Unless setPods has a new object, the pod is put
// back unchanged.
type moved struct {
	pod   *corev1.Pod
	node  int
	entry *podEntry // nil if it was on no node
}

// with returns the State of the world after changes of pods and claims. It is false if the whole input must be
// read again.
func (w *world) with(c *Changes, in *input) (*State, bool, error) {
	pods := w.podsOfWorld()
	if pods == nil {
		return nil, false, nil
	}
	base := w.root.withReadSet()
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

// follow returns the next world, still with the pods and claims of this one.
func (w *world) follow(resolver *podclaims.Resolver, in *input) *world {
	next := &world{
		family: w.family, resolver: resolver, input: in, unlisted: w.unlisted, unsettled: maps.Clone(w.unsettled), faults: slices.Clone(w.faults), claims: w.claims,
	}
	next.leaving.Store(w.leaving.Load())
	return next
}

// take collects the last object for each name of a pod or claim.
func (f *follower) take(c *Changes) {
	f.setPods, f.again = make(map[types.NamespacedName]*corev1.Pod), make(map[types.NamespacedName]bool)
	f.setClaims = make(map[types.NamespacedName]*resourceapi.ResourceClaim)
	for _, pod := range c.Gone.Pods {
		f.setPods[lists.Key(pod)], f.again[lists.Key(pod)] = nil, true
	}
	for _, pod := range c.Set.Pods {
		f.setPods[lists.Key(pod)] = pod
	}
	for _, pod := range slices.Concat(c.Set.Pods, c.Gone.Pods) { // new pods come in the order of Set
		f.affect(lists.Key(pod))
	}
	for _, claim := range c.Gone.Claims {
		f.setClaims[lists.Key(claim)] = nil
	}
	for _, claim := range c.Set.Claims {
		f.setClaims[lists.Key(claim)] = claim
	}
}

// affect records a pod that is taken off its node, or is new.
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
		return // neither on a node nor set
	}
	f.moved[key] = m
	f.order = append(f.order, key)
}

// changedClaims lists the deleted claims and the set ones, once each. It calls affect for each pod that uses
// one of them, and for each whose claim could not be resolved. It is false if pods of a group use one.
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
		for key := range w.unsettled { // a new claim may be the missing one
			f.affect(key)
		}
	}
	return gone, set, true
}

// leave takes pods off their nodes, except from the lists of pods.
func (f *follower) leave() {
	for _, key := range f.order {
		m := f.moved[key]
		if m.entry == nil {
			continue
		}
		rec := f.d.real.Edit(m.node, f.by)
		rec.used = amounts.WithoutZeros(amounts.Add(rec.used, f.before.demandsOf(m.pod, rec.facts), -1))
		for _, id := range m.entry.claims {
			f.claimOf(id).leave(f.before.consumer(id, m.pod), f.by)
		}
	}
}

// claimOf returns the record of a claim for writing, without the consumers that only status.reservedFor lists.
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

// dropFaults removes the faults of pods and claims that are read again.
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

// replaceClaim releases what a claim holds, and reads the claim in its place. Nil deletes it.
func (f *follower) replaceClaim(key types.NamespacedName, claim *resourceapi.ResourceClaim) {
	w := f.next
	id := w.number(key)
	rec := f.claimOf(id)
	for _, held := range rec.held {
		node := f.d.real.Edit(held.node.index, f.by)
		node.state = node.state.Change(held.holdings, false)
	}
	if len(rec.shared) > 0 {
		f.d.surroundings = f.d.surroundings.Change(rec.shared, false)
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
		f.d.surroundings = f.d.surroundings.Change(rec.shared, true)
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

// drop removes a pod from the list of its node.
func (f *follower) drop(m *moved) {
	rec := f.d.real.Edit(m.node, f.by)
	id := m.entry.identity()
	rec.pods = rec.pods.without(func(other *podEntry) bool { return other == id })
}

// swap replaces the entry of a pod in the list of its node.
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
