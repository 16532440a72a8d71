// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
)

// CloneTestSnapshot returns a Snapshot of deep copies of all objects, without open forks. For nil, it returns
// nil. It is for tests: programs need not copy objects that do not change.
func CloneTestSnapshot(s *Snapshot) *Snapshot {
	if s == nil {
		return nil
	}
	claims := make(map[ResourceClaimId]*resourceapi.ResourceClaim, len(s.claims.now))
	for id, claim := range s.claims.now {
		claims[id] = claim.DeepCopy()
	}
	byNode := make(map[string][]*resourceapi.ResourceSlice, len(s.slices.now))
	for node, given := range s.givenSlices() {
		copies := make([]*resourceapi.ResourceSlice, len(given))
		for i, slice := range given {
			copies[i] = slice.DeepCopy()
		}
		byNode[node] = copies
	}
	ofNone := byNode[ofNoNode]
	delete(byNode, ofNoNode)
	classes := make(map[string]*resourceapi.DeviceClass, len(s.classes))
	for name, class := range s.classes {
		classes[name] = class.DeepCopy()
	}
	clone := NewSnapshot(claims, byNode, ofNone, classes)
	if len(s.rules) > 0 {
		clone.rules = make([]*resourceapi.DeviceTaintRule, len(s.rules))
		for i, rule := range s.rules {
			clone.rules[i] = rule.DeepCopy()
		}
		clone.publishAll(clone.givenSlices())
	}
	return clone
}

// SnapshotFlattenedComparer compares the present claims, slices and classes of two Snapshots. It ignores forks.
// It is for tests.
func SnapshotFlattenedComparer() cmp.Option {
	return cmp.Comparer(func(a, b *Snapshot) bool {
		if a == nil || b == nil {
			return a == b
		}
		return cmp.Equal(a.claims.now, b.claims.now) && cmp.Equal(a.classes, b.classes) &&
			cmp.Equal(a.givenSlices(), b.givenSlices())
	})
}

// givenSlices returns the slices by node, as they were added.
func (s *Snapshot) givenSlices() map[string][]*resourceapi.ResourceSlice {
	given := make(map[string][]*resourceapi.ResourceSlice, len(s.slices.now))
	for node, of := range s.slices.now {
		given[node] = of.given
	}
	return given
}
