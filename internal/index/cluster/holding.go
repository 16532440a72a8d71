// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/quantity"
)

// ClaimRef identifies a claim that holds a device, and the request for it.
type ClaimRef struct {
	Namespace, Name string
	UID             types.UID
	// Request is "request" or "request/subrequest", as in the allocation result.
	Request string
}

// String returns "namespace/name".
func (r ClaimRef) String() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

func compareRefs(a, b ClaimRef) int {
	return cmp.Or(
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
		strings.Compare(string(a.UID), string(b.UID)),
		strings.Compare(a.Request, b.Request),
	)
}

// claimRef identifies a claim by name and UID, so that a claim that was created again is another one.
func claimRef(claim *resourceapi.ResourceClaim) (ClaimRef, error) {
	if claim == nil {
		return ClaimRef{}, errors.New("claim is nil")
	}
	return ClaimRef{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}, nil
}

// holding is what one claim holds of one device: the device, or a share of it.
type holding struct {
	device   pool.DeviceID
	ref      ClaimRef
	share    bool
	consumed []pool.Consumption
}

// of reports whether a claim is the holder.
func (h *holding) of(claim ClaimRef) bool {
	claim.Request = h.ref.Request
	return h.ref == claim
}

// holdings returns what a claim's allocation holds, in a list that next allocates. Results with admin access
// hold nothing. The list is never nil, so that the ledger can tell an empty claim from an unknown one.
func holdings(gates pool.Gates, ref ClaimRef, claim *resourceapi.ResourceClaim, next func(size int) []holding) ([]holding, error) {
	if claim.Status.Allocation == nil {
		return nil, fmt.Errorf("claim %s: status.allocation is not set", ref)
	}
	results := claim.Status.Allocation.Devices.Results
	list := next(len(results))
	for i := range results {
		result := &results[i]
		if ptr.Deref(result.AdminAccess, false) {
			continue
		}
		h := holding{device: pool.DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}, ref: ref}
		h.ref.Request = result.Request
		if result.ShareID != nil && gates.ConsumableCapacity {
			h.share = true
			for capacity, consumed := range result.ConsumedCapacity {
				h.consumed = append(h.consumed, pool.Consumption{Capacity: capacity, Amount: quantity.Amount(consumed)})
			}
		}
		list = append(list, h)
	}
	return list, nil
}

// useOf adds up the holdings of one device by all claims. Only one of them should be exclusive.
func useOf(held []*holding) (use pool.Use) {
	for _, h := range held {
		if !h.share {
			use.Exclusive = true
			continue
		}
		use.Shared = true
		for _, c := range h.consumed {
			at := slices.IndexFunc(use.Consumed, func(sum pool.Consumption) bool { return sum.Capacity == c.Capacity })
			if at < 0 {
				use.Consumed = append(use.Consumed, c)
			} else {
				use.Consumed[at].Amount = use.Consumed[at].Amount.Add(c.Amount)
			}
		}
	}
	return use
}
