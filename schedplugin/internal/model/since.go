// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// ClaimChanges is a ResourceClaimTracker that reports which claims changed. It must not modify claims and
// lists of slices that its manager returned, but replace them.
type ClaimChanges interface {
	fwk.ResourceClaimTracker
	// ChangedSince returns the claims that were added, changed or deleted since an earlier call, identified
	// by the value that it returned as now. A claim may be listed several times. Known is false if the
	// earlier call was of another tracker, too long ago, or nil: then the caller has to list all claims.
	ChangedSince(call any) (changed []types.NamespacedName, now any, known bool)
}

// observeSince observes the claims that changed since the last observation.
func (m *Model) observeSince(tracker ClaimChanges) error {
	changed, now, known := tracker.ChangedSince(m.observed)
	m.observed = nil // after an error, the next observation lists all claims
	if !known {
		if err := m.observeAll(); err != nil {
			return err
		}
		m.observed = now
		return nil
	}
	for _, name := range changed {
		at := key{name.Namespace, name.Name}
		claim, err := tracker.Get(name.Namespace, name.Name)
		if err != nil { // the claim does not exist
			err = m.forget(at)
		} else {
			err = m.observe(claim)
		}
		if err != nil {
			return err
		}
	}
	m.observed = now
	return nil
}
