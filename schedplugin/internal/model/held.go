// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"hash/maphash"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// seed is the same for the life of the process. HeldHash is valid that long.
var seed = maphash.MakeSeed()

// hashOfHeld is a hash of the claim's UID, and of the fields that takesSame compares.
func hashOfHeld(claim *resourceapi.ResourceClaim) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	write := func(texts ...string) {
		for _, text := range texts {
			_, _ = h.WriteString(text)
			_ = h.WriteByte(0)
		}
	}
	write(string(claim.UID))
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		write(r.Driver, r.Pool, r.Device, r.Request, strconv.FormatBool(ptr.Deref(r.AdminAccess, false)), string(ptr.Deref(r.ShareID, "")))
		var consumed uint64 // a map has no order
		for name, amount := range r.ConsumedCapacity {
			consumed += maphash.String(seed, string(name)+"\x00"+amount.String())
		}
		write(strconv.FormatUint(consumed, 16))
	}
	return h.Sum64()
}
