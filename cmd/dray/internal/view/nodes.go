// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/cmd/dray/internal/render"
)

// addNodes adds the nodes, with their kinds.
func (p *Picture) addNodes(nodes []*corev1.Node) {
	index := make(map[string]int, len(nodes))
	for i, node := range nodes {
		index[node.Name] = i
		p.Nodes = append(p.Nodes, Node{
			Name: node.Name, Labels: node.Labels, Cordoned: node.Spec.Unschedulable, Taints: nodeTaints(node),
		})
	}
	for i := range p.Pools {
		if pool := &p.Pools[i]; len(pool.Nodes) == 1 {
			node := &p.Nodes[index[pool.Nodes[0]]]
			node.pools = append(node.pools, i)
		}
	}
	for i := range p.Nodes {
		p.Nodes[i].Kind = p.kindOf(&p.Nodes[i])
	}
}

// noDevices is the kind of nodes without devices of their own.
const noDevices = "no devices of its own"

// kindOf returns a summary of a node's devices: "8 × H100, 4 × rdma". Partitions are not counted if
// the whole device is published.
func (p *Picture) kindOf(node *Node) string {
	counts := make(map[string]int)
	for _, at := range node.pools {
		pool := &p.Pools[at]
		for i := range pool.Devices {
			device := &pool.Devices[i]
			if !isPart(pool, i) {
				counts[p.Shapes[device.Shape].Product]++
			}
		}
	}
	if len(counts) == 0 {
		return noDevices
	}
	products := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	const most = 4
	var parts []string
	for _, product := range products[:min(most, len(products))] {
		parts = append(parts, fmt.Sprintf("%d × %s", counts[product], product))
	}
	if len(products) > most {
		parts = append(parts, render.Count(len(products)-most, "other kind"))
	}
	return strings.Join(parts, ", ")
}

// isPart reports whether a device is a partition of another published device.
func isPart(pool *Pool, device int) bool {
	return slices.ContainsFunc(pool.Devices[device].Sets, func(set int) bool {
		return pool.Sets[set].Whole >= 0 && pool.Sets[set].Whole != device
	})
}
