// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Nil and zero values are a cluster without slices in which nothing is in use, and can be used as any other.
func TestNilAndZero(t *testing.T) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: "x"}},
	}}
	id := DeviceID{Driver: "d", Pool: "p", Device: "x"}
	states := map[string]*State{
		"nil": nil, "zero": {}, "of nil": NewState(nil), "of zero": NewState(new(Snapshot)), "rebased": NewState(nil).Rebase(nil), "nil rebased": (*State)(nil).Rebase(nil),
		"ledger of nil": NewLedger(nil).State(), "zero ledger": new(Ledger).State(),
	}
	for name, s := range states {
		if n := s.Snapshot().Len(); n != 0 || len(s.Holders(id)) != 0 {
			t.Errorf("%s: %d pools", name, n)
		}
		for range s.Snapshot().Pools() {
			t.Errorf("%s: there is a pool", name)
		}
		if _, found := s.Snapshot().Pool(PoolID{}); found {
			t.Errorf("%s: a pool is found", name)
		}
		if view, err := s.Snapshot().GatherPools(&corev1.Node{}); err != nil {
			t.Errorf("%s: %v, %v", name, view, err)
		}
		next, err := s.Assume(claim)
		if err != nil || len(next.Holders(id)) != 1 {
			t.Fatalf("%s: assumed: %v", name, err)
		}
		if next, err = next.Forget(claim); err != nil || len(next.Holders(id)) != 0 {
			t.Errorf("%s: forgotten: %v", name, err)
		}
		if _, err := s.Forget(claim); err == nil {
			t.Errorf("%s: a claim is forgotten that nobody has", name)
		}
	}
	for name, l := range map[string]*Ledger{"of nil": NewLedger(nil), "zero": {}} {
		branch := l.Branch()
		if err := branch.Assume(claim); err != nil {
			t.Fatal(err)
		}
		if err := branch.Commit(); err != nil || len(l.State().Holders(id)) != 1 {
			t.Errorf("%s: committed: %v", name, err)
		}
		l.Rebase(nil)
		if len(l.State().Holders(id)) != 1 {
			t.Errorf("%s: what is held is lost", name)
		}
		if l.Revert(); len(l.State().Holders(id)) != 0 {
			t.Errorf("%s: reverted, and something is held", name)
		}
		if l.State().Snapshot().Gates() != (Gates{}) {
			t.Errorf("%s: gates %v", name, l.State().Snapshot().Gates())
		}
	}
}
