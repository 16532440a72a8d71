package model

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// observeClaims brings the ledger up to date.
func (m *Model) observeClaims() error {
	m.round++
	// Before the list: when one of these ceases to be in flight, it is listed.
	if err := m.observeUnlisted(); err != nil {
		return err
	}
	list, err := m.dra.ResourceClaims().List()
	if err != nil {
		return fmt.Errorf("list resource claims: %w", err)
	}
	for _, claim := range list {
		if err := m.observe(claim); err != nil {
			return err
		}
	}
	return m.sweep()
}

func (m *Model) observeUnlisted() error {
	for uid, claim := range m.unlisted {
		if m.dra.ResourceClaims().GetPendingAllocation(uid) == nil {
			delete(m.unlisted, uid)
			continue
		}
		if err := m.record(uid, claim, claim, true); err != nil {
			return err
		}
	}
	return nil
}

// observe looks at one listed claim.
func (m *Model) observe(claim *resourceapi.ResourceClaim) error {
	known := m.claims[claim.UID]
	if known != nil && known.source == claim && !known.inFlight {
		known.round = m.round
		return nil
	}
	if claim.Status.Allocation != nil {
		return m.record(claim.UID, claim, claim, false)
	}
	pending := m.dra.ResourceClaims().GetPendingAllocation(claim.UID)
	if pending != nil {
		return m.record(claim.UID, claim, inFlight(claim, pending), true)
	}
	if known == nil || !known.inFlight {
		return nil
	}
	// It may have been allocated for good between the list and the question.
	latest, err := m.dra.ResourceClaims().Get(claim.Namespace, claim.Name)
	if err != nil || latest.UID != claim.UID || latest.Status.Allocation == nil {
		return nil //nolint:nilerr // a claim that is not found any more holds nothing
	}
	return m.record(claim.UID, latest, latest, false)
}

// inFlight is the claim as it will be.
func inFlight(claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		Status:     resourceapi.ResourceClaimStatus{Allocation: allocation},
	}
}

// record puts an allocated claim into the ledger, in stead of what it held before.
func (m *Model) record(uid types.UID, source, allocated *resourceapi.ResourceClaim, flying bool) error {
	known := m.claims[uid]
	if known == nil {
		known = &entry{}
	} else if holdsSame(known.ledgered, allocated) {
		known.source, known.inFlight, known.round = source, flying, m.round
		return nil
	} else if err := m.ledger.Release(known.ledgered); err != nil {
		return err
	}
	if err := m.ledger.Allocate(allocated); err != nil {
		return err
	}
	*known = entry{source: source, ledgered: allocated, inFlight: flying, round: m.round}
	m.claims[uid] = known
	return nil
}

// holdsSame compares only what devices are held. The rest of an allocated claim changes
// often: who it is reserved for, and what drivers report.
func holdsSame(a, b *resourceapi.ResourceClaim) bool {
	return a.Status.Allocation == b.Status.Allocation ||
		equality.Semantic.DeepEqual(a.Status.Allocation.Devices.Results, b.Status.Allocation.Devices.Results)
}

// sweep releases what claims held that were not observed in this round.
func (m *Model) sweep() error {
	for uid, known := range m.claims {
		if known.round == m.round {
			continue
		}
		if err := m.ledger.Release(known.ledgered); err != nil {
			return err
		}
		delete(m.claims, uid)
	}
	return nil
}
