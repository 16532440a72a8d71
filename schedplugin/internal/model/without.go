// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/pools"
)

// partial is a ledger without some of the claims. It follows the ledger of the model.
type partial struct {
	id     any
	ledger *pools.Ledger
	// absent are the claims that it lacks.
	absent map[*entry]struct{}
	// toCheck are the claims to ask about the next time. All others are as they were when
	// they were asked about.
	toCheck map[*entry]struct{}
}

// maxPartials is how many of these ledgers are kept. Each costs as much for a claim that
// changes as the model's own.
const maxPartials = 4

// Gone says of a claim that holds devices, as the manager has it, whether it is to be left
// out. Lasting is that the answer stays the same until the claim changes, or one of its
// consumers is reported to PodsChanged.
type Gone func(claim *resourceapi.ResourceClaim) (gone, lasting bool)

// Without returns a ledger as if some claims held nothing: those that are gone, but for those
// to keep. The ledger of the last call with the same id is kept, and so are lasting answers:
// a call costs what changed since. The state is that of the last observation. Nil stands for
// all claims.
func (v *View) Without(id any, gone Gone, keep []*resourceapi.ResourceClaim) (*pools.Ledger, error) {
	m := v.model
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.partial(id, gone)
	if err != nil {
		return nil, err
	}
	var kept []*entry
	for _, claim := range keep {
		if known := m.claims[keyOf(claim)]; known != nil && p.lacks(known) {
			kept = append(kept, known)
		}
	}
	if len(p.absent) == len(kept) {
		return nil, nil
	}
	ledger := p.ledger.Branch()
	for _, known := range kept {
		if err := ledger.Assume(known.inLedger); err != nil {
			return nil, err
		}
	}
	return ledger, nil
}

// PodsChanged reports pods that came, went or changed, by UID.
func (m *Model) PodsChanged(pods []types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.partials) == 0 {
		return
	}
	for _, pod := range pods {
		for known := range m.consumers[pod] {
			m.recheck(known)
		}
	}
}

// recheck has a claim asked about once more.
func (m *Model) recheck(known *entry) {
	for _, p := range m.partials {
		p.toCheck[known] = struct{}{}
	}
}

// partial returns the ledger of an earlier call, brought up to date, or a new one.
func (m *Model) partial(id any, gone Gone) (*partial, error) {
	i := slices.IndexFunc(m.partials, func(p *partial) bool { return p.id == id })
	if i < 0 {
		return m.newPartial(id, gone)
	}
	p := m.partials[i]
	m.partials = slices.Insert(slices.Delete(m.partials, i, i+1), 0, p)
	return p, m.update(p, gone)
}

// newPartial starts with all claims, or with none if most are absent.
func (m *Model) newPartial(id any, gone Gone) (*partial, error) {
	p := &partial{id: id, ledger: m.ledger.Branch(), absent: make(map[*entry]struct{}), toCheck: make(map[*entry]struct{})}
	for _, known := range m.claims {
		if p.ask(known, gone) {
			p.absent[known] = struct{}{}
		}
	}
	few := 2*len(p.absent) <= len(m.claims)
	if !few {
		p.ledger = pools.NewLedger(m.ledger.State().Snapshot())
	}
	var present []*resourceapi.ResourceClaim
	for _, known := range m.claims {
		switch {
		case p.lacks(known) != few:
		case !few:
			present = append(present, known.inLedger)
		default:
			if err := p.ledger.Forget(known.inLedger); err != nil {
				return nil, err
			}
		}
	}
	if err := p.ledger.AssumeAll(present); err != nil {
		return nil, err
	}
	if m.consumers == nil {
		m.consumers = make(map[types.UID]map[*entry]struct{})
		for _, known := range m.claims {
			m.indexConsumers(known)
		}
	}
	m.partials = slices.Insert(m.partials, 0, p)
	m.partials = slices.Delete(m.partials, min(len(m.partials), maxPartials), len(m.partials))
	return p, nil
}

func (p *partial) lacks(known *entry) bool {
	_, absent := p.absent[known]
	return absent
}

// ask asks about a claim, and notes whether that has to be done again.
func (p *partial) ask(known *entry, gone Gone) bool {
	absent, lasting := gone(known.source)
	if lasting {
		delete(p.toCheck, known)
	} else {
		p.toCheck[known] = struct{}{}
	}
	return absent
}

// update brings a ledger up to date of which claims are gone. Where claims change unnoticed, it
// asks about all of them.
func (m *Model) update(p *partial, gone Gone) error {
	if !m.changes.complete() {
		for _, known := range m.claims {
			p.toCheck[known] = struct{}{}
		}
	}
	for known := range p.toCheck {
		switch wanted := p.ask(known, gone); {
		case wanted == p.lacks(known):
		case wanted:
			p.absent[known] = struct{}{}
			if err := p.ledger.Forget(known.inLedger); err != nil {
				return err
			}
		default:
			delete(p.absent, known)
			if err := p.ledger.Assume(known.inLedger); err != nil {
				return err
			}
		}
	}
	return nil
}

// addToPartials adds a claim to all these ledgers.
func (m *Model) addToPartials(known *entry) error {
	for _, p := range m.partials {
		if err := p.ledger.Assume(known.inLedger); err != nil {
			return err
		}
	}
	return nil
}

// removeFromPartials removes a claim that holds nothing any more.
func (m *Model) removeFromPartials(known *entry) error {
	for _, p := range m.partials {
		delete(p.toCheck, known)
		if p.lacks(known) {
			delete(p.absent, known)
			continue
		}
		if err := p.ledger.Forget(known.inLedger); err != nil {
			return err
		}
	}
	return nil
}

// indexConsumers notes who uses a claim, as its source says, and has it asked about.
func (m *Model) indexConsumers(known *entry) {
	if m.consumers == nil {
		return // nobody asks yet
	}
	known.consumers = consumersOf(known.source)
	for _, pod := range known.consumers {
		if m.consumers[pod] == nil {
			m.consumers[pod] = make(map[*entry]struct{})
		}
		m.consumers[pod][known] = struct{}{}
	}
	m.recheck(known)
}

func (m *Model) unindexConsumers(known *entry) {
	for _, pod := range known.consumers {
		delete(m.consumers[pod], known)
		if len(m.consumers[pod]) == 0 {
			delete(m.consumers, pod)
		}
	}
	known.consumers = nil
}

// consumersOf are the pods that decide whether a claim is needed: those it is reserved for, or
// else its owner.
func consumersOf(claim *resourceapi.ResourceClaim) []types.UID {
	var pods []types.UID
	for i := range claim.Status.ReservedFor {
		pods = append(pods, claim.Status.ReservedFor[i].UID)
	}
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && pods == nil {
		pods = append(pods, owner.UID)
	}
	return pods
}
