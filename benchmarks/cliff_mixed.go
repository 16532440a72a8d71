// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
)

// mixedCliffs combine two or three other cliffs in one pod.
var mixedCliffs = []Cliff{
	{Name: "mixed-match-and-distinct", K: "requests that match in groups of that size, and differ in one value less", Sizes: []int{4, 8, 11}, Build: func(k int) *alloctest.Case {
		c := grouped(scalar, sizes(11, k)...)
		for i := range c.Slices[0].Spec.Devices {
			attribute("slot", string(rune('a'+i%k%(k-1))))(&c.Slices[0].Spec.Devices[i])
		}
		claim := c.claim("pending", requests(k, "gpu")...)
		matching(claim, "gpu.example.com/root")
		differing(claim, "gpu.example.com/slot")
		return c.Case
	}},
	{Name: "mixed-groups-and-busy-nic", K: "requests, in a group of that size, and a NIC in use", Sizes: besideOne, Build: func(k int) *alloctest.Case {
		c := grouped(scalar, append(sizes(3, k-1), k)...)
		c.class("nic", `device.driver == "nic.example.com"`)
		c.pool(nicDriver, "node", devices(1)...)
		c.running(nicDriver, "node", "dev-0")
		claim := c.claim("pending", append(requests(k, "gpu"), request("nic", "nic", 1))...)
		matching(claim, "gpu.example.com/root", requestNames(claim.Spec.Devices.Requests[:k])...)
		return c.Case
	}},
	{Name: "mixed-shares-and-partitions", K: "shares of 60, and partitions of which one less fit", Sizes: []int{8, 15, 22}, Packing: true, Build: func(k int) *alloctest.Case {
		c := partitionable((k - 1) / 7)
		c.class("nic", `device.driver == "nic.example.com"`)
		c.pool(nicDriver, "node", devices(k, numbered, func(int) deviceOption { return shared }, func(int) deviceOption {
			return capacity("bandwidth", "100")
		})...)
		c.claim("nics", sharing(requests(k, "nic"), 60)...)
		c.claim("partitions", requests(k, "mig")...)
		return c.Case
	}},
	{Name: "mixed-picky-claims-and-lists", K: "requests that match by a list, after a claim that may take their devices", Sizes: claimSizes, Fits: true, Build: func(k int) *alloctest.Case {
		c := grouped(overlapping, append([]int{k}, sizes(3, k-1)...)...)
		c.claim("first", requests(k, "gpu")...)
		matching(c.claim("second", requests(k, "gpu")...), "gpu.example.com/root")
		return c.Case
	}},
	{Name: "mixed-prioritized-and-shares", K: "prioritized requests, and shares of 60 of one device less", Sizes: []int{4, 8, 16}, Build: func(k int) *alloctest.Case {
		c := busyNICs(k)
		c.class("share", `device.driver == "share.example.com"`)
		c.pool("share.example.com", "node", devices(k-1, numbered, func(int) deviceOption { return shared }, func(int) deviceOption {
			return capacity("bandwidth", "100")
		})...)
		c.claim("prioritized", prioritized(k)...)
		c.claim("shares", sharing(requests(k, "share"), 60)...)
		return c.Case
	}},
}

func requestNames(asked []resourceapi.DeviceRequest) []string {
	var names []string
	for i := range asked {
		names = append(names, asked[i].Name)
	}
	return names
}
