package pools

import "sync/atomic"

// LazyUsage is what is in use, found out pool by pool when pools are looked at. It is for
// states that come anew for each question, of which a Ledger would cost more than the
// answer. It is safe for concurrent use.
type LazyUsage struct {
	compute func(p *Pool) *PoolUsage
	chunks  []atomic.Pointer[lazyChunk] // by Pool.slot
}

const lazyChunkSize = 64

type lazyChunk [lazyChunkSize]atomic.Pointer[PoolUsage]

// NewLazyUsage returns a usage of the pools of a snapshot. compute is asked about once
// for each pool that is looked at; it must be safe for concurrent use.
func NewLazyUsage(s *Snapshot, compute func(p *Pool) *PoolUsage) *LazyUsage {
	return &LazyUsage{compute: compute, chunks: make([]atomic.Pointer[lazyChunk], (s.bySlot.Len()+lazyChunkSize-1)/lazyChunkSize)}
}

// Pool returns the usage of a pool. Of pools that are not in the snapshot it is computed
// each time.
func (u *LazyUsage) Pool(p *Pool) *PoolUsage {
	if p.slot >= len(u.chunks)*lazyChunkSize {
		return u.compute(p)
	}
	chunk := u.chunks[p.slot/lazyChunkSize].Load()
	if chunk == nil {
		u.chunks[p.slot/lazyChunkSize].CompareAndSwap(nil, new(lazyChunk))
		chunk = u.chunks[p.slot/lazyChunkSize].Load()
	}
	if known := chunk[p.slot%lazyChunkSize].Load(); known != nil && known.pool == p {
		return known
	}
	computed := u.compute(p)
	chunk[p.slot%lazyChunkSize].CompareAndSwap(nil, computed)
	return computed
}
