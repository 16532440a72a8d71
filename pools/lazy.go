package pools

import "sync/atomic"

// LazyUsage is what is in use, found out pool by pool when pools are looked at. It is for
// states that come anew for each question, of which a Ledger would cost more than the
// answer. It is safe for concurrent use.
type LazyUsage struct {
	UsageSource
	chunks []atomic.Pointer[lazyChunk] // by Pool.slot
}

// UsageSource is where a LazyUsage finds out what is in use. It must be safe for
// concurrent use, and its answers must not change.
type UsageSource interface {
	// Pool returns the usage of a pool. It is asked once for each pool of the snapshot
	// that is looked at.
	Pool(p *Pool) *PoolUsage
	// Separate reports whether the usage of a pool is merely that some of its devices
	// are in use as a whole, and none of its devices consumes counters.
	Separate(p *Pool) bool
	// Exclusive reports whether a device is in use as a whole.
	Exclusive(p *Pool, i DeviceIndex) bool
}

const lazyChunkSize = 64

type lazyChunk [lazyChunkSize]atomic.Pointer[PoolUsage]

// NewLazyUsage returns a usage of the pools of a snapshot.
func NewLazyUsage(s *Snapshot, source UsageSource) *LazyUsage {
	return &LazyUsage{UsageSource: source, chunks: make([]atomic.Pointer[lazyChunk], (s.bySlot.Len()+lazyChunkSize-1)/lazyChunkSize)}
}

// Pool returns the usage of a pool. Of pools that are not in the snapshot it is computed
// each time.
func (u *LazyUsage) Pool(p *Pool) *PoolUsage {
	if p.slot >= len(u.chunks)*lazyChunkSize {
		return u.UsageSource.Pool(p)
	}
	chunk := u.chunks[p.slot/lazyChunkSize].Load()
	if chunk == nil {
		u.chunks[p.slot/lazyChunkSize].CompareAndSwap(nil, new(lazyChunk))
		chunk = u.chunks[p.slot/lazyChunkSize].Load()
	}
	if known := chunk[p.slot%lazyChunkSize].Load(); known != nil && known.pool == p {
		return known
	}
	computed := u.UsageSource.Pool(p)
	chunk[p.slot%lazyChunkSize].CompareAndSwap(nil, computed)
	return computed
}
