// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/simulate"
)

// Topologies are what the pods of a group must have in common: the labels of spec.schedulingConstraints, then what its annotation says
// of their devices. NotLookedAt lists what a simulation leaves aside of that. The error is about the annotation.
func (c *Cluster) Topologies(g Gang) (list []simulate.Topology, notLookedAt []string, err error) {
	group, err := extension.GroupOf(g.object.Annotations)
	if err != nil {
		return nil, nil, fmt.Errorf("PodGroup %s: %w", g.Key, err)
	}
	if constraints := g.object.Spec.SchedulingConstraints; constraints != nil {
		for _, one := range constraints.Topology {
			list = append(list, simulate.Topology{NodeLabel: one.Key})
		}
	}
	for _, match := range group.Constraints {
		list = append(list, simulate.Topology{DeviceAttribute: match.MatchAttribute, Requests: match.Requests})
	}
	for _, match := range group.Preferred {
		list = append(list, simulate.Topology{DeviceAttribute: match.MatchAttribute, Requests: match.Requests, Preferred: true})
	}
	if len(group.MaxDistinct) > 0 {
		notLookedAt = append(notLookedAt, "maxDistinct of the PodGroup")
	}
	if len(list) > 0 && c.runs(g) {
		notLookedAt = append(notLookedAt, "what pods of the PodGroup have that run already")
	}
	return list, notLookedAt, nil
}

// runs reports whether a pod of a group runs.
func (c *Cluster) runs(g Gang) bool {
	for _, pod := range c.pods {
		if nodefit.Occupies(pod) && c.groupOf(Workload{Pod: pod}) == g.object {
			return true
		}
	}
	return false
}
