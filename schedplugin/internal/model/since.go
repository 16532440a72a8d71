// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// ClaimChanges is a ResourceClaimTracker that tells which claims changed. Claims and lists of slices that its
// manager returned stay as they are: what changes is replaced.
type ClaimChanges interface {
	fwk.ResourceClaimTracker
	// ChangedSince returns the claims that came, changed or went since an earlier call, which is
	// named by what it returned as now. A claim may be listed several times. The call is not known
	// if it was one of another tracker, or too long ago, or none (nil): then all claims have to be
	// listed.
	ChangedSince(call any) (changed []types.NamespacedName, now any, known bool)
}

// observeSince looks at the claims that changed since the last observation.
func (m *Model) observeSince(tracker ClaimChanges) error {
	changed, now, known := tracker.ChangedSince(m.observed)
	m.observed = nil // in case of an error
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
		if err != nil { // it is not there
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
