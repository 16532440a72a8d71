package cluster

import (
	"sync/atomic"

	"github.com/dray-project/dray/internal/index/pool"
)

// Source is where a State finds out what is in use. It must be safe for concurrent use,
// and its answers must not change.
type Source interface {
	// Pool returns the usage of a pool. It is asked once for each pool of the snapshot
	// that is looked at.
	Pool(p *pool.Pool) *pool.Usage
	// Separate reports whether the usage of a pool is merely that some of its devices
	// are in use as a whole, and none of its devices consumes counters.
	Separate(p *pool.Pool) bool
	// Exclusive reports whether a device is in use as a whole.
	Exclusive(p *pool.Pool, i pool.DeviceIndex) bool
}

// NewLazyState returns a state that is found out pool by pool when pools are looked at. It
// is for states that come anew for each question, of which adding up all claims would cost
// more than the answer. It holds no claims, and none can be assumed.
func NewLazyState(s *Snapshot, source Source) *State {
	chunks := make([]atomic.Pointer[lazyChunk], (s.bySlot.Len()+lazyChunkSize-1)/lazyChunkSize)
	return &State{snapshot: s, lazy: &lazy{source: source, chunks: chunks}}
}

// lazy remembers what the source said.
type lazy struct {
	source Source
	chunks []atomic.Pointer[lazyChunk] // by Pool.Slot
}

const lazyChunkSize = 64

type lazyChunk [lazyChunkSize]atomic.Pointer[pool.Usage]

// pool returns the usage of a pool. Of pools that are not in the snapshot it is computed
// each time.
func (u *lazy) pool(p *pool.Pool) *pool.Usage {
	if p.Slot >= len(u.chunks)*lazyChunkSize {
		return u.source.Pool(p)
	}
	at := &u.chunks[p.Slot/lazyChunkSize]
	chunk := at.Load()
	if chunk == nil {
		at.CompareAndSwap(nil, new(lazyChunk))
		chunk = at.Load()
	}
	if known := chunk[p.Slot%lazyChunkSize].Load(); known != nil && known.Pool() == p {
		return known
	}
	computed := u.source.Pool(p)
	chunk[p.Slot%lazyChunkSize].CompareAndSwap(nil, computed)
	return computed
}
