// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// observeClaims brings the ledger up to date.
func (m *Model) observeClaims() error {
	// These come first: a claim that ceases to be in flight meanwhile is found in the list after that.
	if err := m.observeUnlisted(); err != nil {
		return err
	}
	if tracker, tells := m.dra.ResourceClaims().(ClaimChanges); tells {
		return m.observeSince(tracker)
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
			if err := m.record(at, claim, m.allocated(claim, claim.Status.Allocation), true); err != nil {
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

// observe records what one claim of the manager holds now.
func (m *Model) observe(claim *resourceapi.ResourceClaim) error {
	at := keyOf(claim)
	known := m.claims[at]
	if known != nil && known.upToDate(claim) {
		m.markListed(known)
		return nil
	}
	if claim.Status.Allocation != nil {
		return m.record(at, claim, m.allocated(claim, claim.Status.Allocation), false)
	}
	if pending := m.dra.ResourceClaims().GetPendingAllocation(claim.UID); pending != nil {
		return m.record(at, claim, m.allocated(claim, pending), true)
	}
	if known == nil {
		return nil
	}
	// Between the list and GetPendingAllocation, the allocation may have been written.
	latest, err := m.dra.ResourceClaims().Get(claim.Namespace, claim.Name)
	if err != nil || latest.Status.Allocation == nil {
		return m.forget(at) // a claim that does not exist holds nothing
	}
	return m.record(at, latest, m.allocated(latest, latest.Status.Allocation), false)
}

// upToDate reports whether the entry agrees with the claim. The same pointer is not enough: simulators modify
// claims in place.
func (e *entry) upToDate(claim *resourceapi.ResourceClaim) bool {
	return e.source == claim && !e.inFlight && e.inLedger.UID == claim.UID &&
		sameResults(e.inLedger.Status.Allocation, claim.Status.Allocation)
}

// holds reports whether a claim, according to the API server, has the devices of the entry.
func (e *entry) holds(claim *resourceapi.ResourceClaim) bool {
	return claim.Status.Allocation != nil && holdsSame(e.inLedger, claim)
}

// sameResults reports whether two allocations share one list of results. It does not compare the contents.
func sameResults(a, b *resourceapi.AllocationResult) bool {
	if a == nil || b == nil || len(a.Devices.Results) != len(b.Devices.Results) {
		return false
	}
	return len(a.Devices.Results) == 0 || &a.Devices.Results[0] == &b.Devices.Results[0]
}

// allocated returns the claim object to put into the ledger. It shares the list of results.
func (m *Model) allocated(claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult) *resourceapi.ResourceClaim {
	if claim.Status.Allocation == allocation && m.claimsImmutable() {
		return claim
	}
	held := *allocation
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		Status:     resourceapi.ResourceClaimStatus{Allocation: &held},
	}
}

// record puts an allocated claim into the ledger, and removes what the claim held before.
func (m *Model) record(at key, source, allocated *resourceapi.ResourceClaim, inFlight bool) error {
	if known := m.claims[at]; known != nil {
		if holdsSame(known.inLedger, allocated) {
			// The next observation compares with the claim's present list of results.
			changed := known.source != source
			known.source, known.inLedger, known.inFlight = source, allocated, inFlight
			m.markListed(known)
			if changed {
				m.unindexConsumers(known)
				m.indexConsumers(known)
			}
			return nil
		}
		if err := m.forget(at); err != nil {
			return err
		}
	}
	if err := m.ledger.Assume(allocated); err != nil {
		return err
	}
	known := &entry{source: source, inLedger: allocated, inFlight: inFlight, heldHash: hashOfHeld(allocated)}
	m.claims[at] = known
	m.heldHash += known.heldHash
	m.markListed(known)
	m.indexConsumers(known)
	return m.addToPartials(known)
}

// forget removes a claim from the ledger, if it is there.
func (m *Model) forget(at key) error {
	known := m.claims[at]
	if known == nil {
		return nil
	}
	delete(m.claims, at)
	m.heldHash -= known.heldHash
	if !known.inFlight {
		m.freed++
	}
	m.unindexConsumers(known)
	known.source = nil
	return errors.Join(m.removeFromPartials(known), m.ledger.Forget(known.inLedger))
}

// holdsSame compares the devices that two claims hold. Other parts of an allocated claim change often:
// consumers, and the status that drivers report.
func holdsSame(a, b *resourceapi.ResourceClaim) bool {
	return a.UID == b.UID && (sameResults(a.Status.Allocation, b.Status.Allocation) ||
		slices.EqualFunc(a.Status.Allocation.Devices.Results, b.Status.Allocation.Devices.Results, takesSame))
}

// takesSame compares the fields of results that a ledger reads.
func takesSame(a, b resourceapi.DeviceRequestAllocationResult) bool {
	return a.Driver == b.Driver && a.Pool == b.Pool && a.Device == b.Device && a.Request == b.Request &&
		ptr.Deref(a.AdminAccess, false) == ptr.Deref(b.AdminAccess, false) && ptr.Equal(a.ShareID, b.ShareID) &&
		maps.EqualFunc(a.ConsumedCapacity, b.ConsumedCapacity, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}
