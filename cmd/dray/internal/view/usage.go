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

// counted counts the devices of a picture as dray usage does, when that is first requested.
type counted struct {
	lock    sync.Mutex
	cluster *cluster.Cluster
	states  []cluster.PoolState
	devices []usage.Device
	reports map[usage.By]*usage.Report
}

// Usage counts the devices of the picture, before any waiting workload was placed. It is safe for
// concurrent use. Callers must not modify the result.
func (p *Picture) Usage(by usage.By) *usage.Report {
	k := p.counted
	k.lock.Lock()
	defer k.lock.Unlock()
	if k.reports == nil {
		k.reports = make(map[usage.By]*usage.Report)
		k.devices = usage.Inspect(k.cluster, k.states)
	}
	if k.reports[by] == nil {
		if len(k.reports) == maxCounted {
			clear(k.reports)
		}
		k.reports[by] = usage.Count(k.cluster, k.devices, by)
	}
	return k.reports[by]
}

// maxCounted is the maximum number of reports of a picture, and in a file.
const maxCounted = 32

// usages returns the reports for a file. It omits those by node, which is on the map, and by
// attributes with almost unique values.
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
	for _, by := range bys[:min(maxCounted, len(bys))] {
		reports[by] = p.Usage(by)
	}
	return reports
}
