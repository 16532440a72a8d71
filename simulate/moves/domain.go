// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"strings"

	"github.com/dray-project/dray/simulate"
)

// domain is the nodes with equal values of the required topology labels.
type domain []simulate.Node

// domains groups the nodes by the values of the required labels. Without labels there is one domain. Topologies by device attribute and preferred
// ones are left to simulate.Sim.Gang.
func (f *finder) domains() []domain {
	var labels []simulate.Topology
	for _, t := range f.Topologies {
		if t.NodeLabel != "" && !t.Preferred {
			labels = append(labels, t)
		}
	}
	if len(labels) == 0 {
		return []domain{f.nodes}
	}
	var list []domain
	at := make(map[string]int)
	for _, node := range f.nodes {
		key, complete := valuesOf(f.state.Object(node).Labels, labels)
		if !complete {
			continue
		}
		i, known := at[key]
		if !known {
			i, at[key] = len(list), len(list)
			list = append(list, nil)
		}
		list[i] = append(list[i], node)
	}
	return list
}

func valuesOf(has map[string]string, labels []simulate.Topology) (key string, complete bool) {
	var values []string
	for i := range labels {
		value, found := has[labels[i].NodeLabel]
		if !found || !labels[i].Permits(value) {
			return "", false
		}
		values = append(values, value)
	}
	return strings.Join(values, "/"), true // which no value has
}
