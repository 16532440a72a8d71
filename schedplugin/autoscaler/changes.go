// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import "k8s.io/apimachinery/pkg/types"

// changeLog lists the claims that changed, in order.
type changeLog struct {
	// forgotten is the number of changes that were dropped from the beginning.
	forgotten int
	recent    []types.NamespacedName
}

// minLog is the smallest number of changes at which the log is dropped.
const minLog = 1024

// add logs a change of a claim. claims is the number of all claims: a longer log is dropped, as listing all
// claims then costs less.
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

// ChangedSince returns the claims that were added, changed or removed since an earlier call. The argument is
// what that call returned as now. It is false if that call was for another Snapshot, or if the changes since
// are no longer in the log.
func (t claimTracker) ChangedSince(call any) (changed []types.NamespacedName, now any, known bool) {
	log := &t.changes
	now = moment{t.Snapshot, log.forgotten + len(log.recent)}
	last, _ := call.(moment)
	if last.of != t.Snapshot || last.at < log.forgotten {
		return nil, now, false
	}
	return log.recent[last.at-log.forgotten:], now, true
}
