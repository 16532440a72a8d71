// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import "k8s.io/apimachinery/pkg/types"

// changeLog lists which claims changed, in order.
type changeLog struct {
	// forgotten is how many changes were dropped from the beginning.
	forgotten int
	recent    []types.NamespacedName
}

// minLog is how many changes are kept in any case.
const minLog = 1024

// add notes a change of one of some claims. Listing all of them costs less than a long log.
func (l *changeLog) add(id ResourceClaimId, claims int) {
	if len(l.recent) >= minLog+claims {
		l.forgotten += len(l.recent)
		l.recent = nil
	}
	l.recent = append(l.recent, types.NamespacedName{Namespace: id.Namespace, Name: id.Name})
}

// moment is a position in the log of a Snapshot.
type moment struct {
	of *Snapshot
	at int
}

// ChangedSince returns the claims that came, changed or went since an earlier call, which is named
// by what it returned as now. It is false if that was about another Snapshot, or too long ago.
func (t claimTracker) ChangedSince(call any) (changed []types.NamespacedName, now any, known bool) {
	log := &t.changes
	now = moment{t.Snapshot, log.forgotten + len(log.recent)}
	last, ok := call.(moment)
	if !ok || last.of != t.Snapshot || last.at < log.forgotten {
		return nil, now, false
	}
	return log.recent[last.at-log.forgotten:], now, true
}
