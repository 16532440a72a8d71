package model

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// observeClaims brings the ledger up to date.
func (m *Model) observeClaims() error {
	// Before all others: when one of these ceases to be in flight, it is listed.
	if err := m.observeUnlisted(); err != nil {
		return err
	}
	if !m.changes.complete() {
		return m.observeAll()
	}
	return m.observeChanged()
}

func (m *Model) observeUnlisted() error {
	for uid, claim := range m.unlisted {
		at := key{name: string(uid)}
		if m.dra.ResourceClaims().GetPendingAllocation(uid) != nil {
			if err := m.record(at, claim, claim, true); err != nil {
				return err
			}
			continue
		}
		delete(m.unlisted, uid)
		if err := m.forget(at); err != nil {
			return err
		}
	}
	return nil
}

// observe looks at one claim that the manager has.
func (m *Model) observe(claim *resourceapi.ResourceClaim) error {
	at := keyOf(claim)
	known := m.claims[at]
	if known != nil && known.source == claim && !known.inFlight {
		known.round = m.round
		return nil
	}
	if claim.Status.Allocation != nil {
		return m.record(at, claim, claim, false)
	}
	if pending := m.dra.ResourceClaims().GetPendingAllocation(claim.UID); pending != nil {
		return m.record(at, claim, inFlight(claim, pending), true)
	}
	if known == nil {
		return nil
	}
	// It may have been allocated for good between the list and the question.
	latest, err := m.dra.ResourceClaims().Get(claim.Namespace, claim.Name)
	if err != nil || latest.Status.Allocation == nil {
		return m.forget(at) // a claim that is not found holds nothing, either
	}
	return m.record(at, latest, latest, false)
}

// inFlight is the claim as it will be.
func inFlight(claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		Status:     resourceapi.ResourceClaimStatus{Allocation: allocation},
	}
}

// record puts an allocated claim into the ledger, in stead of what was there before.
func (m *Model) record(at key, source, allocated *resourceapi.ResourceClaim, flying bool) error {
	if known := m.claims[at]; known != nil {
		if holdsSame(known.ledgered, allocated) {
			known.source, known.inFlight, known.round = source, flying, m.round
			return nil
		}
		if err := m.forget(at); err != nil {
			return err
		}
	}
	if err := m.ledger.Allocate(allocated); err != nil {
		return err
	}
	m.claims[at] = &entry{source: source, ledgered: allocated, inFlight: flying, round: m.round}
	return nil
}

// forget releases what a claim held, if it did.
func (m *Model) forget(at key) error {
	known := m.claims[at]
	if known == nil {
		return nil
	}
	delete(m.claims, at)
	return m.ledger.Release(known.ledgered)
}

// holdsSame compares only what devices are held. The rest of an allocated claim changes
// often: who it is reserved for, and what drivers report.
func holdsSame(a, b *resourceapi.ResourceClaim) bool {
	return a.UID == b.UID && (a.Status.Allocation == b.Status.Allocation ||
		equality.Semantic.DeepEqual(a.Status.Allocation.Devices.Results, b.Status.Allocation.Devices.Results))
}
