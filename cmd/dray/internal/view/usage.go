// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/usage"
)

// counted counts the devices of a picture as dray usage does, once it is asked to.
type counted struct {
	lock    sync.Mutex
	cluster *cluster.Cluster
	states  []cluster.PoolState
	devices []usage.Device
	reports map[usage.By]*usage.Report
}

// Usage counts the devices of the picture: those that are in use before anything that waits is placed. It is safe for
// concurrent use. What it returns is not to be modified.
func (p *Picture) Usage(by usage.By) *usage.Report {
	k := p.counted
	k.lock.Lock()
	defer k.lock.Unlock()
	if k.reports == nil {
		k.reports = make(map[usage.By]*usage.Report)
		k.devices = usage.Inspect(k.cluster, k.states)
	}
	if k.reports[by] == nil {
		if len(k.reports) == mostCounted {
			clear(k.reports)
		}
		k.reports[by] = usage.Count(k.cluster, k.devices, by)
	}
	return k.reports[by]
}

// mostCounted is how many reports a picture keeps, and a file has.
const mostCounted = 32

// usages are reports by all that a file has: the node is on the map, and attributes that hardly two devices agree in tell nothing.
func (p *Picture) usages() map[usage.By]*usage.Report {
	attributes := make(map[string]bool)
	for i := range p.Shapes {
		for name := range p.Shapes[i].Attributes {
			attributes[name] = true
		}
	}
	bys := []usage.By{usage.ByNamespace, usage.ByWorkload, usage.ByClass, usage.ByDriver}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		bys = append(bys, usage.By(fmt.Sprintf("%s=%s", usage.ByAttribute, name)))
	}
	reports := make(map[usage.By]*usage.Report)
	for _, by := range bys[:min(mostCounted, len(bys))] {
		reports[by] = p.Usage(by)
	}
	return reports
}
