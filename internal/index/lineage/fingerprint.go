package lineage

import (
	"hash/maphash"
	"math/bits"
	"slices"
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

// sketch has the smallest hashes of a set, sorted: a sample that is the same wherever two
// sets agree, so that comparing sketches tells how much sets have in common.
type sketch []uint64

const sketchSize = 64

func sketchOf(list []*resourceapi.ResourceSlice) sketch {
	smallest := make(sketch, 0, sketchSize+1)
	for _, slice := range list {
		if slice == nil {
			continue
		}
		h := hashOf(slice, secrets[0])
		if len(smallest) == sketchSize && h >= smallest[sketchSize-1] {
			continue
		}
		if at, found := slices.BinarySearch(smallest, h); !found {
			smallest = slices.Insert(smallest, at, h)
			smallest = smallest[:min(len(smallest), sketchSize)]
		}
	}
	return smallest
}

// similarity estimates which part of all slices of two sets is in both. It is exact for
// small sets, and 0 if there are none.
func (s sketch) similarity(other sketch) float64 {
	both := 0
	for _, h := range s {
		if _, found := slices.BinarySearch(other, h); found {
			both++
		}
	}
	return float64(both) / float64(max(len(s)+len(other)-both, 1))
}
