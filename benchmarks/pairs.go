// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
)

const pcieRoot = "resource.kubernetes.io/pcieRoot"

// pairWorkloads has four pairs of a GPU and a NIC, each on one PCIe root, on 16 nodes in different
// states.
func pairWorkloads() []Workload {
	var all []Workload
	for _, state := range []struct {
		name string
		// used reports whether the NIC of a root is in use on a node.
		used func(node, root int) bool
	}{
		{"roomy", func(node, root int) bool { return root < 4 && node>>root&1 == 1 && node%3 == 0 }},
		{"fragmented", func(node, root int) bool { return root < 4 }},
	} {
		all = append(all, Workload{
			Group:  "pairs",
			Name:   fmt.Sprintf("state=%s/pairs=4/nodes=16", state.name),
			Build:  func() *alloctest.Case { return pairs(16, 4, state.used) },
			Pods:   []Pod{EqualPod, NewPod},
			Needed: Needed{Ratio: 100},
		})
	}
	return all
}

// pairs has nodes with 16 GPUs and 8 NICs on eight PCIe roots.
func pairs(nodes, count int, used func(node, root int) bool) *alloctest.Case {
	c := newCluster(fmt.Sprintf("%d pairs of GPU and NIC", count))
	c.class("gpu", `device.driver == "gpu.example.com"`)
	c.class("nic", `device.driver == "nic.example.com"`)
	for n := range nodes {
		node := c.node(fmt.Sprintf("node-%02d", n)).Name
		var gpus, nics []resourceapi.Device
		for root := range 8 {
			bus := attribute(pcieRoot, fmt.Sprintf("pci0000:%02x", root))
			for i := range 2 {
				d := gpu(node, 2*root+i, "H100")
				bus(&d)
				gpus = append(gpus, d)
			}
			nics = append(nics, newDevice(fmt.Sprintf("nic-%d", root), bus, attribute("mac", fmt.Sprintf("%s-%d", node, root))))
			if used(n, root) {
				c.running(nicDriver, node, fmt.Sprintf("nic-%d", root))
			}
		}
		c.pool(gpuDriver, node, gpus...)
		c.pool(nicDriver, node, nics...)
		// The second GPUs of some roots are in use, so that nodes differ. That does not affect the
		// pairs.
		for root := range 4 {
			if n>>root&1 == 1 {
				c.running(gpuDriver, node, fmt.Sprintf("gpu-%d", 2*root+1))
			}
		}
	}
	claim := c.claim("pending")
	for i := range count {
		g, n := fmt.Sprintf("gpu-%d", i), fmt.Sprintf("nic-%d", i)
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request(g, "gpu", 1, gpuModel), request(n, "nic", 1))
		matching(claim, pcieRoot, g, n)
	}
	return c.Case
}
