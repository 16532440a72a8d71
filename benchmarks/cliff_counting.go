// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
)

var (
	claimSizes = []int{4, 8, 16, 32}
	// sizes that leave room for one more request in the claim
	besideOne = []int{4, 8, 16, 31}
)

// countingCliffs depend on the number of devices, and on which claims get them.
var countingCliffs = []Cliff{
	{Name: "one-device-too-few", K: "requests of one device each", Sizes: claimSizes, Build: oneDeviceTooFew},
	{Name: "busy-nic", K: "requests for one of 24 GPUs", Sizes: []int{4, 8, 16, 24}, Build: func(k int) *alloctest.Case {
		c := busyNICs(24)
		c.claim("pending", append(requests(k, "gpu"), request("nic", "nic", 1))...)
		return c.Case
	}},
	{Name: "busy-nic-count", K: "GPUs of 24, in one request", Sizes: []int{4, 8, 16, 24}, Build: func(k int) *alloctest.Case {
		c := busyNICs(24)
		c.claim("pending", request("gpu", "gpu", int64(k)), request("nic", "nic", 1))
		return c.Case
	}},
	{Name: "busy-nic-two-claims", K: "requests for one of 24 GPUs, in a claim before", Sizes: []int{4, 8, 16, 24}, Build: func(k int) *alloctest.Case {
		c := busyNICs(24)
		c.claim("gpus", requests(k, "gpu")...)
		c.claim("nic", request("nic", "nic", 1))
		return c.Case
	}},
	{Name: "busy-nic-network", K: "requests for one of 128 network devices", Sizes: besideOne, Build: func(k int) *alloctest.Case {
		c := busyNICs(128)
		c.claim("pending", append(requests(k, "gpu"), request("nic", "nic", 1))...)
		return c.Case
	}},
	{Name: "picky-request-last", K: "requests that take any device", Sizes: besideOne, Fits: true, Build: func(k int) *alloctest.Case {
		c := specialFirst(k + 1)
		c.claim("pending", append(requests(k, "gpu"), request("picky", "gpu", 1, isSpecial))...)
		return c.Case
	}},
	{Name: "picky-request-last-count", K: "devices that may be any", Sizes: besideOne, Fits: true, Build: func(k int) *alloctest.Case {
		c := specialFirst(k + 1)
		c.claim("pending", request("any", "gpu", int64(k)), request("picky", "gpu", 1, isSpecial))
		return c.Case
	}},
	{Name: "claims-compete", K: "claims for two devices, one of them special", Sizes: claimSizes, Build: func(k int) *alloctest.Case {
		c := specialFirst(2*k + 8)
		for i := range k {
			c.claim(fmt.Sprintf("pending-%d", i), request("any", "gpu", 1), request("picky", "gpu", 1, isSpecial))
		}
		return c.Case
	}},
	{Name: "last-alternative", K: "prioritized requests of eight alternatives", Sizes: besideOne, Build: func(k int) *alloctest.Case {
		c := busyNICs(128)
		c.claim("pending", append(prioritized(k), request("nic", "nic", 1))...)
		return c.Case
	}},
}

// oneDeviceTooFew has K requests for K-1 devices.
func oneDeviceTooFew(k int) *alloctest.Case {
	c := newCluster(fmt.Sprintf("%d requests, %d devices", k, k-1))
	c.node("node")
	c.class("gpu", `device.driver == "gpu.example.com"`)
	c.pool(gpuDriver, "node", devices(k-1, numbered)...)
	c.claim("pending", requests(k, "gpu")...)
	return c.Case
}

// numbered gives each device a unique attribute.
func numbered(i int) deviceOption { return attribute("uuid", fmt.Sprintf("GPU-%d", i)) }

// busyNICs is a node with free GPUs and two allocated NICs.
func busyNICs(gpus int) cluster {
	c := newCluster(fmt.Sprintf("%d GPUs, two NICs in use", gpus))
	c.node("node")
	c.class("gpu", `device.driver == "gpu.example.com"`)
	c.class("nic", `device.driver == "nic.example.com"`)
	c.pool(gpuDriver, "node", devices(gpus, numbered, func(i int) deviceOption { return number("index", int64(i)) })...)
	c.pool(nicDriver, "node", devices(2, numbered)...)
	c.running(nicDriver, "node", "dev-0", "dev-1")
	return c
}

const isSpecial = `"special" in device.attributes["gpu.example.com"]`

// specialFirst has GPUs, the first of which has the attribute special.
func specialFirst(gpus int) cluster {
	c := newCluster(fmt.Sprintf("%d GPUs, the first is special", gpus))
	c.node("node")
	c.class("gpu", `device.driver == "gpu.example.com"`)
	all := devices(gpus, numbered)
	boolean("special", true)(&all[0])
	c.pool(gpuDriver, "node", all...)
	return c
}

// prioritized returns requests with prioritized lists, whose alternatives match more and more of
// the GPUs.
func prioritized(n int) []resourceapi.DeviceRequest {
	var all []resourceapi.DeviceRequest
	for i := range n {
		var expressions []string
		for k := range 8 {
			expressions = append(expressions, fmt.Sprintf(`device.attributes["gpu.example.com"].index < %d`, 16*(k+1)))
		}
		all = append(all, alternatives(fmt.Sprintf("gpu-%d", i), "gpu", expressions...))
	}
	return all
}
