// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/pools"
)

// large is a question about pods of some kinds in a cluster in which few GPUs are left: just enough if no pod takes more of them than
// it has to. One after the other the pods do not fit, if they have a choice.
func large(tb testing.TB, pods, nodes, kinds int, choice bool) gang.Question {
	tb.Helper()
	var slices []*resourceapi.ResourceSlice
	q := gang.Question{Together: false}
	free := (pods + 1) / 2
	for n := range nodes {
		node := &corev1.Node{}
		node.Name = fmt.Sprintf("node-%04d", n)
		q.Nodes = append(q.Nodes, node)
		units := int64(1) // too little for a half
		if n%(nodes/free) == 0 && n/(nodes/free) < free {
			units = 4
		}
		slices = append(slices, partitions(node.Name, units)...)
	}
	core := allocator.New(allocator.Options{Features: allocator.AllFeatures()})
	classes := allocator.ClassMap(gpuClass())
	q.Compile = func(claims []*resourceapi.ResourceClaim) (*allocator.Problem, error) {
		return core.Compile(claims, classes)
	}
	q.State = pools.NewState(pools.Build(allocator.AllFeatures().PoolGates(), slices))
	for i := range pods {
		wanted := [][]alternative{{{0, 1}, {1, 1}}}
		if !choice {
			wanted = [][]alternative{{{1, 1}}}
		}
		k := i % kinds
		c := claim{requests: wanted, matched: k == 1} // which makes no difference, but for the kind
		if k == 2 {
			c.requests = [][]alternative{{{1, 1}}}
		}
		q.Pods = append(q.Pods, gang.Pod{Kind: fmt.Sprint("kind-", k), Variants: [][]*resourceapi.ResourceClaim{{c.object(fmt.Sprint("claim-", i))}}})
	}
	return q
}

// partitions are a GPU that can be had whole or in halves.
func partitions(node string, units int64) []*resourceapi.ResourceSlice {
	slice := func(suffix string) *resourceapi.ResourceSlice {
		s := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: ptr.To(node), Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 2},
		}}
		s.Name = node + suffix
		return s
	}
	devices, counters := slice("-devices"), slice("-counters")
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "set", Counters: map[string]resourceapi.Counter{"units": {Value: *resource.NewQuantity(units, resource.DecimalSI)}}}}
	for i, draws := range []int64{4, 2, 2} {
		devices.Spec.Devices = append(devices.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprint("device-", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"model": {IntValue: ptr.To(int64(min(i, 1)))}, "root": {IntValue: ptr.To(int64(0))},
			},
			ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "set", Counters: map[string]resourceapi.Counter{"units": {Value: *resource.NewQuantity(draws, resource.DecimalSI)}}}},
		})
	}
	return []*resourceapi.ResourceSlice{devices, counters}
}

// userTime is how long the process has computed. Unlike what a clock shows, that depends little on what else runs.
func userTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano())
}

// BenchmarkAsk shows what a gang costs, one pod after the other and together, and how that grows.
func BenchmarkAsk(b *testing.B) {
	for _, size := range []struct{ pods, nodes, kinds int }{
		{64, 1000, 1}, {256, 2000, 1}, {512, 5000, 1}, {1024, 4000, 1}, {4096, 8000, 1}, {64, 1000, 3}, {256, 2000, 3}, {512, 5000, 3}, {1024, 4000, 3}, {4096, 8000, 3},
	} {
		for _, choice := range []bool{false, true} {
			name := map[bool]string{false: "OneByOne", true: "Together"}[choice]
			b.Run(fmt.Sprintf("%s/%d pods of %d kinds on %d nodes", name, size.pods, size.kinds, size.nodes), func(b *testing.B) {
				q := large(b, size.pods, size.nodes, size.kinds, choice)
				var r *gang.Result
				before := userTime(b)
				for b.Loop() {
					var err error
					if r, err = gang.Ask(context.Background(), q); err != nil {
						b.Fatal(err)
					}
				}
				if r.Verdict != allocator.Satisfiable || r.OneByOne == choice {
					b.Fatalf("%v with %d pods after %d steps, one by one: %v", r.Verdict, r.Placed(), r.Steps, r.OneByOne)
				}
				b.ReportMetric(float64(r.Steps), "steps")
				b.ReportMetric(float64((userTime(b)-before).Microseconds())/1000/float64(b.N), "user-ms/op")
			})
		}
	}
}
