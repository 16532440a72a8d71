// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package lineage

import (
	"hash/maphash"
	"math/bits"
	"unsafe"

	resourceapi "k8s.io/api/resource/v1"
)

// fingerprint identifies a set of slices, in any order. Different sets have equal fingerprints with a
// probability of 2^-128. Nobody can construct such sets, as the seeds are secret to the process. A fingerprint
// is made of the addresses of slices, so it is valid only as long as the slices live. A holder of a fingerprint
// must keep its slices, too.
type fingerprint struct {
	count int
	sums  [2]uint64
}

// secrets are the seeds of the two hashes.
var secrets = [2]uint64{
	maphash.Comparable(maphash.MakeSeed(), 0),
	maphash.Comparable(maphash.MakeSeed(), 1),
}

// fingerprintOf ignores nil slices.
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

// change returns the fingerprint after slices were removed and added.
func (f fingerprint) change(fewer, more []*resourceapi.ResourceSlice) fingerprint {
	less, also := fingerprintOf(fewer), fingerprintOf(more)
	f.count += also.count - less.count
	for i := range f.sums {
		f.sums[i] += also.sums[i] - less.sums[i]
	}
	return f
}

// hashOf is a bijection of addresses for each secret. It mixes as SplitMix64 does.
func hashOf(slice *resourceapi.ResourceSlice, secret uint64) uint64 {
	// Without the multiplication, the two hashes of one address would differ by a constant before they are
	// mixed. Multiplying by an odd number is a bijection, too.
	h := bits.RotateLeft64(uint64(uintptr(unsafe.Pointer(slice)))*(secret|1), 32) + secret
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
