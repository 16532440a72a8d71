// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package lineage

import (
	"hash/maphash"
	"math/bits"
	"unsafe"

	resourceapi "k8s.io/api/resource/v1"
)

// fingerprint stands for a set of slices, whatever their order. Sets that differ have
// equal fingerprints by chance only, once in 2^128, and by nobody's intent: the hashes
// are secret to the process. But it is made of addresses, which say which slice is meant
// only while the slice lives. So whoever keeps a fingerprint keeps its slices, too.
type fingerprint struct {
	count int
	sums  [2]uint64
}

// secrets are what an address is mixed with.
var secrets = [2]uint64{
	maphash.Comparable(maphash.MakeSeed(), 0),
	maphash.Comparable(maphash.MakeSeed(), 1),
}

// fingerprintOf passes over nil.
func fingerprintOf(list []*resourceapi.ResourceSlice) (f fingerprint) {
	for _, slice := range list {
		if slice == nil {
			continue
		}
		f.count++
		f.sums[0] += hashOf(slice, secrets[0])
		f.sums[1] += hashOf(slice, secrets[1])
	}
	return f
}

// change is the fingerprint with fewer slices and others instead.
func (f fingerprint) change(fewer, more []*resourceapi.ResourceSlice) fingerprint {
	less, also := fingerprintOf(fewer), fingerprintOf(more)
	f.count += also.count - less.count
	for i := range f.sums {
		f.sums[i] += also.sums[i] - less.sums[i]
	}
	return f
}

// hashOf is one to one for each secret: it scrambles the address as SplitMix64 does.
func hashOf(slice *resourceapi.ResourceSlice, secret uint64) uint64 {
	// Multiplying by an odd number, which is also one to one, keeps the hashes of one
	// address under two secrets from being a fixed distance apart before they are mixed.
	h := bits.RotateLeft64(uint64(uintptr(unsafe.Pointer(slice)))*(secret|1), 32) + secret
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
