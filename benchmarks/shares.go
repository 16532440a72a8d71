// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/alloctest"
)

const nicDriver = "nic.example.com"

// shareWorkloads has one request for 32 shares of a node's NICs.
func shareWorkloads() []Workload {
	return []Workload{{
		Group: "shares",
		Name:  "count=32/nodes=16",
		Build: func() *alloctest.Case {
			c := newCluster("16 nodes with eight NICs that are shared")
			c.class("nic", `device.driver == "nic.example.com"`)
			for n := range 16 {
				node := c.node(fmt.Sprintf("node-%02d", n)).Name
				c.pool(nicDriver, node, sharedNICs(node)...)
				for i := range n % 8 {
					c.runningShares(nicDriver, node, fmt.Sprintf("nic-%d", i), 1+n/8, "10G")
				}
			}
			asked := request("nics", "nic", 32)
			asked.Exactly.Capacity = &resourceapi.CapacityRequirements{
				Requests: map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse("10G")},
			}
			c.claim("pending", asked)
			return c.Case
		},
		Pods:   []Pod{EqualPod, NewPod},
		Needed: Needed{Ratio: 50},
	}}
}

// sharedNICs returns eight NICs of 100G each.
func sharedNICs(node string) []resourceapi.Device {
	var all []resourceapi.Device
	for i := range 8 {
		all = append(all, newDevice(fmt.Sprintf("nic-%d", i), shared,
			attribute("mac", fmt.Sprintf("%s-%d", node, i)), number("numa", int64(i/4)), capacity("bandwidth", "100G")))
	}
	return all
}

// runningShares adds a claim that holds shares of a device.
func (c cluster) runningShares(driver, pool, device string, shares int, bandwidth string) {
	claim := newClaim(fmt.Sprintf("running-%d", len(c.Allocated)))
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for i := range shares {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "running", Driver: driver, Pool: pool, Device: device,
			ShareID:          ptr.To(types.UID(fmt.Sprintf("%s-%s-%s-%d-%d", driver, pool, device, len(c.Allocated), i))),
			ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse(bandwidth)},
		})
	}
	c.Allocated = append(c.Allocated, claim)
}

// sharesElsewhere adds nodes outside the question. Each has eight shared NICs, with ten allocated
// shares per NIC.
func sharesElsewhere(c cluster, shares int) {
	for n := range shares / 80 {
		node := fmt.Sprintf("elsewhere-%03d", n)
		c.pool(nicDriver, node, sharedNICs(node)...)
		for i := range 8 {
			c.runningShares(nicDriver, node, fmt.Sprintf("nic-%d", i), 10, "10G")
		}
	}
}
