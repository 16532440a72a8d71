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

// ClaimRef names the claim, and within it the request, that holds a device.
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

// claimRef is a claim as the ledger knows it: its name and UID, so that a claim
// that was deleted and created anew is another one.
func claimRef(claim *resourceapi.ResourceClaim) (ClaimRef, error) {
	if claim == nil {
		return ClaimRef{}, errors.New("claim is nil")
	}
	return ClaimRef{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}, nil
}

// holding is one device of one claim: all of the device, or a share of it.
type holding struct {
	device   pool.DeviceID
	ref      ClaimRef
	share    bool
	consumed []pool.Consumption
}

// of reports whether the claim is the holder.
func (h *holding) of(claim ClaimRef) bool {
	claim.Request = h.ref.Request
	return h.ref == claim
}

// holdings returns what a claim's allocation takes, in a list that is made by next. Admin access takes nothing. The list is
// never nil, by which a claim is known.
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

// useOf is what holdings of one device come to, of any claims. All of a device should be held once
// at most.
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
