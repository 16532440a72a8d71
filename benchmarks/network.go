// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/alloctest"
)

const (
	fabricDriver    = "fabric.example.com"
	devicesPerSlice = 128
)

// networkWorkloads has a pool that all nodes reach, such as addresses or fabric ports.
func networkWorkloads() []Workload {
	var all []Workload
	for _, state := range []struct {
		name, bandwidth string
		used, sample    int
	}{
		{"empty", "100G", 0, 100},
		{"used", "100G", 1500, 100},
		{"nothing-matches", "400G", 0, 4},
	} {
		all = append(all, Workload{
			Group: "network",
			Name:  fmt.Sprintf("state=%s/devices=4096/nodes=1000", state.name),
			Build: func() *alloctest.Case {
				c := network(1000, 4096, state.used)
				c.claim("pending", request("port", "port", 1, fmt.Sprintf(`device.attributes["fabric.example.com"].bandwidth == %q`, state.bandwidth)))
				return c.Case
			},
			Sample: state.sample,
			Pods:   []Pod{EqualPod, NewPod},
			Needed: Needed{Ratio: 1000},
		})
	}
	return all
}

func network(nodes, devices, used int) cluster {
	c := newCluster(fmt.Sprintf("%d fabric ports for %d nodes", devices, nodes))
	c.class("port", `device.driver == "fabric.example.com"`)
	for n := range nodes {
		c.node(fmt.Sprintf("node-%d", n))
	}
	count := devices / devicesPerSlice
	for s := range count {
		c.Slices = append(c.Slices, fabricSlice(s, count))
	}
	for i := range used {
		c.running(fabricDriver, "fabric", fmt.Sprintf("port-%d", i))
	}
	return c
}

func fabricSlice(s, count int) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{}
	slice.Name = fmt.Sprintf("fabric-%03d", s)
	slice.Spec.Driver = fabricDriver
	slice.Spec.AllNodes = ptr.To(true)
	slice.Spec.Pool = resourceapi.ResourcePool{Name: "fabric", Generation: 1, ResourceSliceCount: int64(count)}
	for i := range devicesPerSlice {
		port := s*devicesPerSlice + i
		slice.Spec.Devices = append(slice.Spec.Devices, newDevice(fmt.Sprintf("port-%d", port),
			attribute("mac", fmt.Sprintf("02:00:00:00:%02x:%02x", port/256, port%256)),
			attribute("bandwidth", "100G"),
			number("switch", int64(port/64)),
			version("firmware", "28.39.1002"),
		))
	}
	return slice
}
