// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/alloctest"
)

// partitionCliffs have GPUs with allocated partitions. The free ones can be taken in many
// equivalent orders.
var partitionCliffs = []Cliff{
	{Name: "two-sizes-small-first", K: "GPUs with room for two sizes of partitions, all of which is asked for", Sizes: []int{2, 4, 8}, Steepest: 4.5, Packing: true, Fits: true, Build: func(k int) *alloctest.Case {
		return twoSizes(k, 0)
	}},
	{Name: "two-sizes-one-odd", K: "GPUs with room for two sizes of partitions, for one less of the large ones than are asked for", Sizes: []int{2, 4, 8}, Steepest: 4.5, Packing: true, Build: func(k int) *alloctest.Case {
		return twoSizes(k, 1)
	}},
	{Name: "partition-pairs-one-too-many", K: "pairs of partitions of a GPU, where one less fit", Sizes: []int{2, 4, 8}, Steepest: 3, Build: func(k int) *alloctest.Case {
		return partitionPairs(k)
	}},
	{Name: "partition-lists", K: "prioritized requests for a GPU, a large partition or two small ones", Sizes: []int{9, 13}, Packing: true, Fits: true, Build: func(k int) *alloctest.Case {
		return partitionLists(k)
	}},
}

// twoSizes has GPUs of 80Gi, two of three with allocated partitions. Requests need all that is
// free: first partitions of 20Gi, then of 40Gi. With one odd, two requests for 20Gi become one for
// 40Gi, for which no GPU has room.
func twoSizes(gpus, odd int) *alloctest.Case {
	c := newCluster(fmt.Sprintf("%d GPUs with partitions of two sizes", gpus))
	c.node("node")
	c.class("mig", `device.driver == "gpu.example.com"`)
	counters := c.pool(gpuDriver, "node")
	var all []resourceapi.Device
	for gpu := range gpus {
		set := fmt.Sprintf("gpu-%d", gpu)
		for _, size := range []int{20, 40} {
			for n := range 80 / size {
				d := newDevice(fmt.Sprintf("%s-%d-%d", set, size, n), number("size", int64(size)))
				consuming(set, "memory", fmt.Sprintf("%dGi", size))(&d)
				all = append(all, d)
			}
		}
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{
			Name: set, Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("80Gi")}},
		})
	}
	c.poolInSlices(counters, all)
	small, large := 0, 0
	for gpu := range gpus {
		switch gpu % 3 {
		case 0:
			c.running(gpuDriver, "node", fmt.Sprintf("gpu-%d-20-0", gpu))
			small, large = small+1, large+1
		case 1:
			large += 2
		default:
			c.running(gpuDriver, "node", fmt.Sprintf("gpu-%d-20-0", gpu), fmt.Sprintf("gpu-%d-40-0", gpu))
			small++
		}
	}
	c.claimMany(append(requests(small-2*odd, "mig", sizeIs(20)), named("large", requests(large+odd, "mig", sizeIs(40)))...))
	return c.Case
}

// partitionPairs has eight GPUs, each with a small allocated partition. On pairs-1 GPUs, there is
// room for one partition of two slices and one of three together. On the others, there is room for
// only one of them.
func partitionPairs(pairs int) *alloctest.Case {
	c := newCluster(fmt.Sprintf("%d GPUs with room for a pair of partitions", pairs-1))
	c.class("mig", `device.driver == "mig.example.com"`)
	name := c.node("node").Name
	c.gpuPartitions(name)
	for gpu := range gpusPerNode {
		slice := 5
		if gpu < pairs-1 {
			slice = gpu % 4
		}
		c.running(migDriver, name, fmt.Sprintf("gpu-%d-1g.5gb-%d", gpu, slice))
	}
	for n := range pairs {
		matching(c.claim(fmt.Sprintf("pending-%d", n),
			request("three", "mig", 1, profileIs("3g.20gb")), request("two", "mig", 1, profileIs("2g.10gb"))), "mig.example.com/parentUUID")
	}
	return c.Case
}

func profileIs(name string) string {
	return fmt.Sprintf(`device.attributes["mig.example.com"].profile == %q`, name)
}

// partitionLists has a node with eight idle GPUs, with partitions for 28 requests. There is a claim
// for each request.
func partitionLists(k int) *alloctest.Case {
	c := newCluster("eight partitionable GPUs")
	c.class("mig", `device.driver == "mig.example.com"`)
	c.gpuPartitions(c.node("node").Name)
	sub := func(name string, count int64, profile string) resourceapi.DeviceSubRequest {
		return resourceapi.DeviceSubRequest{
			Name: name, DeviceClassName: "mig", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count, Selectors: selecting(profileIs(profile)),
		}
	}
	for n := range k {
		c.claim(fmt.Sprintf("pending-%d", n), resourceapi.DeviceRequest{Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{
			sub("whole", 1, "whole"), sub("large", 1, "3g.20gb"), sub("small", 2, "1g.5gb"),
		}})
	}
	return c.Case
}
