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

// partial is a ledger that lacks some of the claims. It is updated together with the model's ledger.
type partial struct {
	id     any
	ledger *pools.Ledger
	// absent are the claims that the ledger lacks.
	absent map[*entry]struct{}
	// toCheck are the claims for which Gone has to be called again. For all others its last answer holds.
	toCheck map[*entry]struct{}
}

// maxPartials is how many of these ledgers are kept. For each changed claim, updating one costs as much as
// updating the model's own.
const maxPartials = 4

// Gone reports whether a claim that holds devices is to be left out of a ledger. Lasting says that the answer
// holds until the claim changes, or one of its consumers is passed to PodsChanged.
type Gone func(claim *resourceapi.ResourceClaim) (gone, lasting bool)

// Without returns a ledger that lacks all claims for which gone is true, except those in keep. It returns nil
// if no claim is lacking. The ledger is kept under id, and lasting answers too, so that the next call with
// the same id costs only what changed since. The ledger has the state of the model's last observation.
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

// PodsChanged tells the model which pods were added, changed or removed, by UID.
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

// recheck makes the next call of Without call Gone for a claim again.
func (m *Model) recheck(known *entry) {
	for _, p := range m.partials {
		p.toCheck[known] = struct{}{}
	}
}

// partial returns the ledger with an id, brought up to date, or a new one.
func (m *Model) partial(id any, gone Gone) (*partial, error) {
	i := slices.IndexFunc(m.partials, func(p *partial) bool { return p.id == id })
	if i < 0 {
		return m.newPartial(id, gone)
	}
	p := m.partials[i]
	m.partials = slices.Insert(slices.Delete(m.partials, i, i+1), 0, p)
	return p, m.update(p, gone)
}

// newPartial copies the model's ledger and removes the absent claims. If most are absent, it starts empty and adds the others.
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

// ask calls Gone for a claim, and remembers whether the answer lasts.
func (p *partial) ask(known *entry, gone Gone) bool {
	absent, lasting := gone(known.source)
	if lasting {
		delete(p.toCheck, known)
	} else {
		p.toCheck[known] = struct{}{}
	}
	return absent
}

// update brings a ledger up to date. If no events report which claims changed, it calls Gone for all.
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

// addToPartials adds a claim to all partial ledgers.
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

// indexConsumers adds a claim to the index by consumers, and has Gone called for it.
func (m *Model) indexConsumers(known *entry) {
	if m.consumers == nil {
		return // Without was not called yet
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

// consumersOf returns the pods that need a claim: its consumers, or else its owner.
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
