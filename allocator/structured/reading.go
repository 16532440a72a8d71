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

// reading sums up all devices in use if many of them would be looked up: a look-up in a large map waits for
// memory, and going through the map does not. The sums tell which pools are in use as they were for the last
// allocator, so that none of their devices has to be looked up.
type reading struct {
	// lookedUp counts the devices of the pools that are asked about, before those that the last allocator was
	// asked about.
	lookedUp *atomic.Int64
	before   int64
	once     sync.Once
	// sums are divided among pools by their names: a change concerns one or two of them.
	sums  []pool.Sum
	pools int
}

// readsPerLookUp is how many devices are read in the time of a look-up.
const readsPerLookUp = 12

// sum is that for a pool. It is none if little is looked up.
func (r *reading) sum(inUse sets.Set[DeviceID], p *pool.Pool) pool.Sum {
	lookedUp := max(r.lookedUp.Add(int64(len(p.Devices))), r.before)
	if len(p.Devices) == 0 || readsPerLookUp*lookedUp < int64(len(inUse)) {
		return pool.Sum{}
	}
	r.once.Do(func() { r.readAll(inUse) })
	driver, name, _ := p.UniqueNames(0)
	sum := *r.at(draapi.UniqueString(driver), draapi.UniqueString(name))
	sum[0]++ // lest it is none
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

// seed keeps sums from being equal by anybody's intent.
var seed = maphash.MakeSeed()

// at is the sum for a pool. What is hashed are the addresses of names: who has one of a name keeps it from
// being another one's.
func (r *reading) at(driver, name draapi.UniqueString) *pool.Sum {
	hash := maphash.Comparable(seed, [...]draapi.UniqueString{driver, name})
	return &r.sums[hash&uint64(len(r.sums)-1)]
}
