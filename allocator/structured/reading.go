// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/sets"
	draapi "k8s.io/dynamic-resource-allocation/api"

	"github.com/dray-project/dray/internal/index/pool"
)

// reading hashes all devices in use into sums by pool, if many of them would be looked up otherwise. A look-up
// in a large map waits for memory, and iterating over the map does not. A pool with an unchanged sum has the
// usage of the last allocator, so none of its devices has to be looked up.
type reading struct {
	// lookedUp counts the devices of the pools that are asked about. before is the count of the last allocator.
	lookedUp *atomic.Int64
	before   int64
	once     sync.Once
	// sums are hash buckets of pools, by name. A change affects one or two of them.
	sums  []pool.Sum
	pools int
}

// readsPerLookUp is how many map entries are iterated over in the time of one look-up.
const readsPerLookUp = 12

// sum returns the sum for a pool. It is zero, which means unknown, as long as few devices are looked up.
func (r *reading) sum(inUse sets.Set[DeviceID], p *pool.Pool) pool.Sum {
	lookedUp := max(r.lookedUp.Add(int64(len(p.Devices))), r.before)
	if len(p.Devices) == 0 || readsPerLookUp*lookedUp < int64(len(inUse)) {
		return pool.Sum{}
	}
	r.once.Do(func() { r.readAll(inUse) })
	driver, name, _ := p.UniqueNames(0)
	sum := *r.at(draapi.UniqueString(driver), draapi.UniqueString(name))
	sum[0]++ // a zero sum would mean unknown
	return sum
}

func (r *reading) readAll(inUse sets.Set[DeviceID]) {
	r.sums = make([]pool.Sum, 1<<bits.Len(uint(r.pools)))
	for id := range inUse {
		sum, hash := r.at(id.Driver, id.Pool), maphash.Comparable(seed, id)
		sum[0] += hash
		high, low := bits.Mul64(hash, hash|1)
		sum[1] += high ^ low
	}
}

// seed is random, so that nobody can construct two states with equal sums.
var seed = maphash.MakeSeed()

// at returns the bucket of a pool. It hashes the addresses of interned names. A caller that holds a name keeps
// its address from being reused.
func (r *reading) at(driver, name draapi.UniqueString) *pool.Sum {
	hash := maphash.Comparable(seed, [...]draapi.UniqueString{driver, name})
	return &r.sums[hash&uint64(len(r.sums)-1)]
}
