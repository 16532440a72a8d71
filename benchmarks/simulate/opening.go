// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/dray-project/dray/simulate"
)

// openingTimes is how many times the nodes a cluster has that is opened.
const openingTimes = 10

// opening reads a cluster of ten times the nodes, with three and a half pods on each.
func (b *bench) opening() []row {
	nodes := openingTimes * len(b.world.cluster.Nodes)
	objects := int64(0)
	large := sync.OnceValue(func() *world {
		before := heap()
		w, err := newWorld(b, nodes, nodes*7/2)
		must(err)
		objects = heap() - before
		return w
	})
	return []row{ // the first makes the cluster, which the peer needs, too
		{name: fmt.Sprintf("Open, CPU per node with %d nodes, beside %d", nodes, nodes/openingTimes), needed: "≤ 1.5×", measure: func() figures {
			small, err := newWorld(b, nodes/openingTimes, nodes/openingTimes*7/2)
			must(err)
			took := opened(large())
			took.ratio = float64(took.perOp) / float64(opened(small).perOp) / openingTimes
			return took
		}},
		{name: fmt.Sprintf("Open, %d nodes, %d pods", nodes, nodes*7/2), parts: 1, measure: func() figures {
			return opened(large())
		}, peer: func(*upstream) error { return b.readAnew(newUpstream(large())) }},
		{name: "what a new State keeps, beside the objects", needed: "≤ 0.2×", measure: func() figures {
			w := large()
			before := heap()
			state, err := simulate.Open(w.cluster, w.options)
			must(err)
			kept := heap() - before
			runtime.KeepAlive(state)
			return figures{bytes: kept, ratio: float64(kept) / float64(objects)}
		}},
	}
}

// opened reads a cluster without any memory.
func opened(w *world) figures {
	return per(func() {}, func(int) {
		_, err := simulate.Open(w.cluster, w.options)
		must(err)
	})
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
