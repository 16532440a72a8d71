// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package charge

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// fleet is so many nodes with eight GPUs each.
func fleet(nodes int) *Cluster {
	var list []*corev1.Node
	var slices []*resourceapi.ResourceSlice
	for i := range nodes {
		name := fmt.Sprint("node-", i)
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: ptr.To(name), Pool: resourceapi.ResourcePool{Name: name, ResourceSliceCount: 1},
		}}
		for d := range 8 {
			slice.Spec.Devices = append(slice.Spec.Devices, gpu(fmt.Sprint("gpu-", d), fmt.Sprintf("%dGi", 40*(1+i%2)), "", nil))
		}
		list, slices = append(list, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}), append(slices, slice)
	}
	features := allocator.AllFeatures()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	return NewCluster(features, pools.Build(features.PoolGates(), slices), list, allocator.ClassMap(class))
}

// Any number of goroutines may ask one Cluster.
func TestOfByGoroutines(t *testing.T) {
	cluster := fleet(20)
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			charge, err := cluster.Of(t.Context(), asking(int64(n+1), ""), []Mapping{capacities})
			if b := charge.Of["gpu-memory"]; err != nil || b.Least.Value()>>30 != int64(40*(n+1)) || b.Most.Value()>>30 != int64(80*(n+1)) {
				t.Errorf("%d GPUs take %s to %s, error %v", n+1, b.Least.String(), b.Most.String(), err)
			}
		})
	}
	group.Wait()
}

func BenchmarkOf(b *testing.B) {
	cluster := fleet(10_000)
	for b.Loop() {
		if charge, err := cluster.Of(b.Context(), asking(4, ""), []Mapping{capacities, ByClass("gpu")}); err != nil || charge.Fits != 10_000 {
			b.Fatal(charge, err)
		}
	}
}
