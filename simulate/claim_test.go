// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/simulate/internal/table"
)

// A consumer that a claim is reserved for is another user of it, unless it is a pod of the cluster. A pod of the same name with another UID is another
// pod. One whose UID is not known is the same.
func TestReserveOthers(t *testing.T) {
	consumer := func(resource, name, uid string) resourceapi.ResourceClaimConsumerReference {
		return resourceapi.ResourceClaimConsumerReference{Resource: resource, Name: name, UID: types.UID(uid)}
	}
	by := new(table.Edition)
	rec := &claimRecord{}
	for _, known := range []resourceapi.ResourceClaimConsumerReference{consumer("pods", "a", "a-1"), consumer("pods", "b", "")} {
		rec.consumers.Add(known, by)
	}
	others := []resourceapi.ResourceClaimConsumerReference{consumer("pods", "a", "a-0"), consumer("pods", "c", "c-1"), consumer("podgroups", "a", "a-1")}
	claim := &resourceapi.ResourceClaim{}
	claim.Status.ReservedFor = append([]resourceapi.ResourceClaimConsumerReference{consumer("pods", "a", "a-1"), consumer("pods", "b", "b-1")}, others...)
	reserveOthers(claim, rec, by)
	if !slices.Equal(rec.reserved, others) {
		t.Errorf("other consumers %v, want %v", rec.reserved, others)
	}
	all := slices.Collect(rec.consumers.All())
	if len(all) != 2+len(others) || slices.ContainsFunc(others, func(other resourceapi.ResourceClaimConsumerReference) bool { return !slices.Contains(all, other) }) {
		t.Errorf("consumers %v, want two pods and %v", all, others)
	}
}
