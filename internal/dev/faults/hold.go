// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"net/http"
	"sync"
)

// Hold is one request that is on its way.
type Hold struct {
	arrived, released chan struct{}
	release           sync.Once
}

// Hold holds back the next request that is described; Times and Status have no meaning.
// Heal forgets about it if none has arrived.
func (p *Proxy) Hold(described Fault) *Hold {
	h := &Hold{arrived: make(chan struct{}), released: make(chan struct{})}
	described.Times, described.hold = 1, h
	p.Inject(described)
	return h
}

// Arrived is closed when the request is there.
func (h *Hold) Arrived() <-chan struct{} { return h.arrived }

// Release lets the request pass. It may be called more than once.
func (h *Hold) Release() { h.release.Do(func() { close(h.released) }) }

// wait returns when the request may pass. If its client is gone by then, it never does.
func (h *Hold) wait(r *http.Request) {
	close(h.arrived)
	select {
	case <-h.released:
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	}
}
