// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/alloctest"
)

// packingCliffs depend on counters and capacities.
var packingCliffs = []Cliff{
	{Name: "partitions-one-too-many", K: "requests for any partition, where one less fit", Sizes: []int{8, 15, 29, 57}, Packing: true, Build: func(k int) *alloctest.Case {
		c := partitionable((k - 1) / 7)
		c.claimMany(requests(k, "mig"))
		return c.Case
	}},
	{Name: "small-before-whole", K: "small partitions, asked for before six whole GPUs of eight", Sizes: []int{2, 4, 8, 14}, Packing: true, Fits: true, Build: func(k int) *alloctest.Case {
		return smallBeforeWhole(k)
	}},
	{Name: "small-before-whole-one-too-many", K: "GPUs, with small partitions for more than two and whole ones for the rest", Sizes: []int{4, 6, 8}, Packing: true, Build: func(k int) *alloctest.Case {
		c := partitionable(k)
		c.claimMany(append(requests(15, "mig", sizeIs(1)), named("whole", requests(k-2, "mig", sizeIs(7)))...))
		return c.Case
	}},
	{Name: "shares-and-busy-device", K: "shares of a NIC, and a GPU that is in use", Sizes: besideOne, Build: func(k int) *alloctest.Case {
		c := sharedNIC(8, 10*k)
		c.class("gpu", `device.driver == "gpu.example.com"`)
		c.pool(gpuDriver, "node", devices(1)...)
		c.running(gpuDriver, "node", "dev-0")
		c.claim("pending", append(sharing(requests(k, "nic"), 10), request("gpu", "gpu", 1))...)
		return c.Case
	}},
	{Name: "large-shares", K: "shares of 60, of one device less with 100 each", Sizes: claimSizes, Packing: true, Build: func(k int) *alloctest.Case {
		c := sharedNIC(k-1, 100)
		c.claim("pending", sharing(requests(k, "nic"), 60)...)
		return c.Case
	}},
	{Name: "large-and-small-shares", K: "shares of 40, then of 60, of devices with 100 each, one pair too many", Sizes: []int{3, 6, 12, 16}, Packing: true, Build: func(k int) *alloctest.Case {
		c := sharedNIC(k-1, 100)
		c.claim("pending", append(sharing(requests(k, "nic"), 40), sharing(named("large", requests(k, "nic")), 60)...)...)
		return c.Case
	}},
}

// claimMany adds claims with at most 32 requests each.
func (c cluster) claimMany(asked []resourceapi.DeviceRequest) {
	for i := 0; len(asked) > 0; i++ {
		n := min(len(asked), resourceapi.DeviceRequestsMaxSize)
		c.claim(fmt.Sprintf("pending-%d", i), asked[:n]...)
		asked = asked[n:]
	}
}

// named returns the requests with other names.
func named(prefix string, asked []resourceapi.DeviceRequest) []resourceapi.DeviceRequest {
	for i := range asked {
		asked[i].Name = fmt.Sprintf("%s-%d", prefix, i)
	}
	return asked
}

func sizeIs(n int) string { return fmt.Sprintf(`device.attributes["gpu.example.com"].size == %d`, n) }

// partitionable has GPUs with seven slices each: seven partitions of one slice, three of two, two
// of three, and the whole GPU. Partitions of one size are listed together, GPU by GPU. So taking
// the first ones fragments all GPUs.
func partitionable(gpus int) cluster {
	c := newCluster(fmt.Sprintf("%d partitionable GPUs", gpus))
	c.node("node")
	c.class("mig", `device.driver == "gpu.example.com"`)
	counters := c.pool(gpuDriver, "node")
	var all []resourceapi.Device
	for _, kind := range []struct{ size, count int }{{1, 7}, {2, 3}, {3, 2}, {7, 1}} {
		for n := range kind.count {
			for gpu := range gpus {
				d := newDevice(fmt.Sprintf("gpu-%d-%d-of-7-%d", gpu, kind.size, n), number("size", int64(kind.size)))
				consuming(fmt.Sprintf("gpu-%d", gpu), "slices", fmt.Sprint(kind.size))(&d)
				all = append(all, d)
			}
		}
	}
	for gpu := range gpus {
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{
			Name: fmt.Sprintf("gpu-%d", gpu), Counters: map[string]resourceapi.Counter{"slices": {Value: *resource.NewQuantity(7, resource.DecimalSI)}},
		})
	}
	c.poolInSlices(counters, all)
	return c
}

// poolInSlices adds devices to a pool, in as many ResourceSlices as the limit for counters
// requires.
func (c cluster) poolInSlices(first *resourceapi.ResourceSlice, all []resourceapi.Device) {
	slices := []*resourceapi.ResourceSlice{first}
	for len(all) > 0 {
		n := min(len(all), resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures)
		slice := c.pool(first.Spec.Driver, first.Spec.Pool.Name, all[:n]...)
		slice.Name = fmt.Sprintf("%s-%d", slice.Name, len(slices))
		slices, all = append(slices, slice), all[n:]
	}
	for _, slice := range slices {
		slice.Spec.Pool.ResourceSliceCount = int64(len(slices))
	}
}

func smallBeforeWhole(small int) *alloctest.Case {
	c := partitionable(8)
	c.claim("pending", append(requests(small, "mig", sizeIs(1)), named("whole", requests(6, "mig", sizeIs(7)))...)...)
	return c.Case
}

// sharedNIC has NICs with a bandwidth that can be shared.
func sharedNIC(nics, bandwidth int) cluster {
	c := newCluster(fmt.Sprintf("%d NICs that are shared", nics))
	c.node("node")
	c.class("nic", `device.driver == "nic.example.com"`)
	c.pool(nicDriver, "node", devices(nics, numbered, func(int) deviceOption { return shared }, func(int) deviceOption {
		return capacity("bandwidth", fmt.Sprint(bandwidth))
	})...)
	return c
}

// sharing adds a request for bandwidth to each request.
func sharing(asked []resourceapi.DeviceRequest, bandwidth int) []resourceapi.DeviceRequest {
	for i := range asked {
		asked[i].Exactly.Capacity = &resourceapi.CapacityRequirements{
			Requests: map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": *resource.NewQuantity(int64(bandwidth), resource.DecimalSI)},
		}
	}
	return asked
}
