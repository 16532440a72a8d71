// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/alloctest"
)

// valueCliffs depend on attributes that must be equal, or distinct.
var valueCliffs = []Cliff{
	{Name: "match-small-groups", K: "requests, in groups of one less", Sizes: claimSizes, Build: func(k int) *alloctest.Case {
		return matchGroups(requests(k, "gpu"), scalar, sizes(4, k-1)...)
	}},
	{Name: "match-last-group", K: "requests, in a group after three of one less", Sizes: claimSizes, Fits: true, Build: func(k int) *alloctest.Case {
		return matchGroups(requests(k, "gpu"), scalar, append(sizes(3, k-1), k)...)
	}},
	{Name: "match-small-groups-count", K: "devices, in groups of one less", Sizes: claimSizes, Build: func(k int) *alloctest.Case {
		return matchGroups(oneRequest(k), scalar, sizes(4, k-1)...)
	}},
	{Name: "match-last-group-count", K: "devices, in a group after three of one less", Sizes: claimSizes, Fits: true, Build: func(k int) *alloctest.Case {
		return matchGroups(oneRequest(k), scalar, append(sizes(3, k-1), k)...)
	}},
	{Name: "match-two-groups-count", K: "devices of two groups of 16", Sizes: []int{17, 20, 24, 32}, Build: func(k int) *alloctest.Case {
		return matchGroups(oneRequest(k), scalar, 16, 16)
	}},
	{Name: "match-lists", K: "requests, of lists that share a value in groups of one less", Sizes: claimSizes, Build: func(k int) *alloctest.Case {
		return matchGroups(requests(k, "gpu"), overlapping, sizes(4, k-1)...)
	}},
	{Name: "match-lists-last-group", K: "requests, of lists in a group after three of one less", Sizes: claimSizes, Fits: true, Build: func(k int) *alloctest.Case {
		return matchGroups(requests(k, "gpu"), overlapping, append(sizes(3, k-1), k)...)
	}},
	{Name: "match-lists-count", K: "devices, of lists that share a value in groups of one less", Sizes: claimSizes, Build: func(k int) *alloctest.Case {
		return matchGroups(oneRequest(k), overlapping, sizes(4, k-1)...)
	}},
	{Name: "distinct-one-value-too-few", K: "requests for different values, of one less", Sizes: claimSizes, Build: func(k int) *alloctest.Case {
		return distinctGroups(requests(k, "gpu"), scalar, sizes(k-1, 4)...)
	}},
	{Name: "distinct-one-value-too-few-count", K: "devices of different values, of one less", Sizes: claimSizes, Build: func(k int) *alloctest.Case {
		return distinctGroups(oneRequest(k), scalar, sizes(k-1, 4)...)
	}},
	{Name: "distinct-lists", K: "requests for lists without a common value, of one less", Sizes: claimSizes, Build: func(k int) *alloctest.Case {
		return distinctGroups(requests(k, "gpu"), apart, sizes(k-1, 4)...)
	}},
	{Name: "distinct-lists-count", K: "devices with lists without a common value, of one less", Sizes: claimSizes, Build: func(k int) *alloctest.Case {
		return distinctGroups(oneRequest(k), apart, sizes(k-1, 4)...)
	}},
	{Name: "pairs-last-roots", K: "pairs of a GPU and a NIC, of which only the last roots have one", Sizes: []int{2, 4, 8, 16}, Fits: true, Build: func(k int) *alloctest.Case {
		return pairsOverRoots(k, k, scalar)
	}},
	{Name: "pairs-one-nic-too-few", K: "pairs of a GPU and a NIC, of which there is one less", Sizes: []int{2, 4, 8, 16}, Build: func(k int) *alloctest.Case {
		return pairsOverRoots(k, k-1, scalar)
	}},
	{Name: "pairs-lists-last-roots", K: "pairs that share one value of a list, only the last roots with NICs", Sizes: []int{2, 4, 8, 16}, Fits: true, Build: func(k int) *alloctest.Case {
		return pairsOverRoots(k, k, apart)
	}},
	{Name: "pairs-lists-one-nic-too-few", K: "pairs that share one value of a list, of which there is one less", Sizes: []int{2, 4, 8, 16}, Build: func(k int) *alloctest.Case {
		return pairsOverRoots(k, k-1, apart)
	}},
	{Name: "pairs-one-root-too-few", K: "pairs of a GPU and a NIC, on roots of which one less has both", Sizes: []int{3, 4, 8, 16}, Build: func(k int) *alloctest.Case {
		return pairsOnUnevenRoots(k)
	}},
	{Name: "rails-one-rack-too-few", K: "claims of four ports on different rails of a rack, of which one less has all rails", Sizes: []int{2, 4, 8, 16}, Build: func(k int) *alloctest.Case {
		return railsOfRacks(k)
	}},
}

// groupValue sets the attribute "root" of device i in a group.
type groupValue func(group, i int) deviceOption

func scalar(group, _ int) deviceOption { return attribute("root", fmt.Sprintf("root-%d", group)) }

// overlapping sets a list with the value of the group, and a value that another group also has.
func overlapping(group, i int) deviceOption {
	return attribute("root", fmt.Sprintf("lane-%d-%d", group/2, i), fmt.Sprintf("root-%d", group))
}

// apart sets a list with the value of the group, and a unique one.
func apart(group, i int) deviceOption {
	return attribute("root", fmt.Sprintf("own-%d-%d", group, i), fmt.Sprintf("root-%d", group))
}

func sizes(groups, size int) []int {
	var all []int
	for range groups {
		all = append(all, size)
	}
	return all
}

func oneRequest(k int) []resourceapi.DeviceRequest {
	return []resourceapi.DeviceRequest{request("gpu", "gpu", int64(k))}
}

// grouped is a node with groups of devices.
func grouped(value groupValue, groups ...int) cluster {
	c := newCluster(fmt.Sprintf("groups of %d devices", groups))
	c.node("node")
	c.class("gpu", `device.driver == "gpu.example.com"`)
	var all []resourceapi.Device
	for g, size := range groups {
		for i := range size {
			all = append(all, newDevice(fmt.Sprintf("dev-%d-%d", g, i), numbered(len(all)), value(g, i)))
		}
	}
	c.pool(gpuDriver, "node", all...)
	return c
}

func matchGroups(asked []resourceapi.DeviceRequest, value groupValue, groups ...int) *alloctest.Case {
	c := grouped(value, groups...)
	matching(c.claim("pending", asked...), "gpu.example.com/root")
	return c.Case
}

func distinctGroups(asked []resourceapi.DeviceRequest, value groupValue, groups ...int) *alloctest.Case {
	c := grouped(value, groups...)
	differing(c.claim("pending", asked...), "gpu.example.com/root")
	return c.Case
}

// pairsOverRoots has four times as many roots as pairs, each with a GPU. Only the last few have
// NICs.
func pairsOverRoots(pairs, nics int, value groupValue) *alloctest.Case {
	roots := 4 * pairs
	c := newCluster(fmt.Sprintf("%d PCIe roots, the last %d have NICs", roots, nics))
	c.node("node")
	c.class("gpu", `device.driver == "gpu.example.com"`)
	c.class("nic", `device.driver == "nic.example.com"`)
	qualified := func(g, i int) deviceOption {
		return func(d *resourceapi.Device) {
			value(g, i)(d)
			d.Attributes["pcie.example.com/root"] = d.Attributes["root"]
			delete(d.Attributes, "root")
		}
	}
	c.pool(gpuDriver, "node", devices(roots, numbered, func(i int) deviceOption { return qualified(i, 0) })...)
	c.pool(nicDriver, "node", devices(nics, numbered, func(i int) deviceOption { return qualified(roots-nics+i, 1) })...)
	claim := c.claim("pending")
	for p := range pairs {
		gpu, nic := fmt.Sprintf("gpu-%d", p), fmt.Sprintf("nic-%d", p)
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request(gpu, "gpu", 1), request(nic, "nic", 1))
		matching(claim, "pcie.example.com/root", gpu, nic)
	}
	return c.Case
}

// pairsOnUnevenRoots has one root less than pairs. Each has two GPUs and a NIC, or two NICs and a
// GPU.
func pairsOnUnevenRoots(pairs int) *alloctest.Case {
	c := newCluster(fmt.Sprintf("%d PCIe roots, each with two GPUs and a NIC, or a GPU and two NICs", pairs-1))
	c.node("node")
	c.class("gpu", `device.driver == "gpu.example.com"`)
	c.class("nic", `device.driver == "nic.example.com"`)
	var gpus, nics []resourceapi.Device
	for root := range pairs - 1 {
		bus := attribute(pcieRoot, fmt.Sprintf("pci0000:%02x", root))
		for range 1 + (root+1)%2 {
			gpus = append(gpus, newDevice(fmt.Sprintf("gpu-%d", len(gpus)), bus))
		}
		for range 1 + root%2 {
			nics = append(nics, newDevice(fmt.Sprintf("nic-%d", len(nics)), bus))
		}
	}
	c.pool(gpuDriver, "node", gpus...)
	c.pool(nicDriver, "node", nics...)
	claim := c.claim("pending")
	for p := range pairs {
		gpu, nic := fmt.Sprintf("gpu-%d", p), fmt.Sprintf("nic-%d", p)
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request(gpu, "gpu", 1), request(nic, "nic", 1))
		matching(claim, pcieRoot, gpu, nic)
	}
	return c.Case
}

// railsOfRacks has as many racks as claims, with eight free ports each. The ports are on all four
// rails, but in the last rack on three.
func railsOfRacks(claims int) *alloctest.Case {
	c := newCluster(fmt.Sprintf("%d racks, the last without a port on one rail", claims))
	c.node("node")
	c.class("port", `device.driver == "fabric.example.com"`)
	var ports []resourceapi.Device
	for rack := range claims {
		for i, rail := range []string{"a", "a", "a", "b", "b", "c", "c", "d"} {
			if rack == claims-1 && rail == "d" {
				rail = "c"
			}
			ports = append(ports, newDevice(fmt.Sprintf("port-%d-%d", rack, i), attribute("rack", fmt.Sprintf("rack-%d", rack)), attribute("rail", rail)))
		}
	}
	c.pool(fabricDriver, "node", ports...)
	for n := range claims {
		claim := c.claim(fmt.Sprintf("pending-%d", n), request("ports", "port", 4))
		matching(claim, "fabric.example.com/rack")
		differing(claim, "fabric.example.com/rail")
	}
	return c.Case
}
