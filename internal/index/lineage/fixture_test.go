// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package lineage

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/dev/given"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
)

var everything = pool.Gates{PartitionableDevices: true, CompatibilityGroups: true, ConsumableCapacity: true}

type objects = []*resourceapi.ResourceSlice

// render prints what a snapshot has and what nodes reach of it.
func render(s *cluster.Snapshot) string {
	var b strings.Builder
	for _, p := range s.Pools() {
		fmt.Fprintf(&b, "%s %d %d/%d %q %q\n", p.ID, p.Generation, p.Present, p.SliceCount, p.Incomplete, p.Invalid)
		for i := range p.Devices {
			fmt.Fprintf(&b, "  %s of %s\n", p.Devices[i].Object.Name, p.Devices[i].Slice.Object.Name)
		}
	}
	for _, name := range []string{"n0", "n1", "n2", "elsewhere"} {
		view, err := s.GatherPools(given.Node(name, "zone", name))
		fmt.Fprintf(&b, "%s: %v\n", name, err)
		for _, v := range view.Pools {
			fmt.Fprintf(&b, "  %s %q %q %v %v %v\n", v.Pool.ID, v.Incomplete, v.Invalid, v.Devices, v.Here, v.Uncertain)
		}
	}
	return b.String()
}

func fleetSlice(n int) *resourceapi.ResourceSlice {
	s := given.Slice(fmt.Sprintf("slice-%04d", n), fmt.Sprintf("node-%04d", n), given.OnNode(fmt.Sprintf("node-%04d", n)))
	for i := range 8 {
		uuid, model, index, ok := fmt.Sprintf("GPU-%04d-%d", n, i), "H100", int64(i), true
		given.Device(fmt.Sprintf("gpu-%d", i),
			given.Attribute("uuid", resourceapi.DeviceAttribute{StringValue: &uuid}),
			given.Attribute("model", resourceapi.DeviceAttribute{StringValue: &model}),
			given.Attribute("index", resourceapi.DeviceAttribute{IntValue: &index}),
			given.Attribute("ecc", resourceapi.DeviceAttribute{BoolValue: &ok}),
			given.Capacity("memory", "80Gi"))(s)
	}
	return s
}
