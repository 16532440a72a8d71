// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// BenchmarkOneChange changes one device of a driver with 5,000 slices in 50 pools, and
// waits until that is published. What counts is the CPU time, of the fake API
// server too, and how many requests there are.
func BenchmarkOneChange(b *testing.B) {
	const pools, slicesPerPool, devicesPerSlice = 50, 100, 8
	update := func(c publisher, resources *DriverResources, _ string) { c.Update(resources) }
	for _, bench := range []struct {
		name, peer string
		update     func(c publisher, resources *DriverResources, changed string)
	}{
		{"dray/Update", "dray", update},
		{"dray/UpdatePool", "dray", func(c publisher, resources *DriverResources, changed string) {
			pool := resources.Pools[changed]
			c.(ours).UpdatePool(changed, &pool)
		}},
		{"upstream/Update", "upstream", update},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := newServer()
			resources := fleet(pools, slicesPerPool, devicesPerSlice)
			s.store(b, resources)
			c, err := peers[bench.peer](b.Context(), Options{DriverName: driver, KubeClient: s, Resources: resources, MutationCacheTTL: ptr.To(24 * time.Hour)})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Stop()
			idle(b) // The controller finds all as it should be.
			if c.writes() > 0 {
				b.Fatalf("%d writes before the first change", c.writes())
			}
			requests, cpu := len(s.Actions()), cpuTime(b)
			b.ResetTimer()
			for i := range b.N {
				name := fmt.Sprint("pool-", i%pools)
				resources.Pools[name].Slices[i%slicesPerPool].Devices[0] = benchmarkDevice(0, fmt.Sprint("changed-", i))
				bench.update(c, resources, name)
				await(b, c, i+1)
			}
			b.StopTimer()
			b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(len(s.Actions())-requests)/float64(b.N), "requests/op")
		})
	}
}

// store puts resources in place without any request.
func (s *server) store(b *testing.B, resources *DriverResources) {
	b.Helper()
	for name, pool := range resources.Pools {
		for i, slice := range pool.Slices {
			object := &resourceapi.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{Name: namePrefix(i, len(pool.Slices), driver, nil) + name, UID: types.UID(name + fmt.Sprint(i)), ResourceVersion: "1"},
				Spec: resourceapi.ResourceSliceSpec{
					Driver:   driver,
					Pool:     resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: int64(len(pool.Slices))},
					AllNodes: ptr.To(true),
					Devices:  slice.DeepCopy().Devices,
				},
			}
			if err := s.Tracker().Add(object); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func await(b *testing.B, c publisher, writes int) {
	b.Helper()
	for deadline := time.Now().Add(2 * time.Minute); c.writes() < writes; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%d writes, want %d", c.writes(), writes)
		}
	}
}

// idle waits until this process has nothing to do.
func idle(b *testing.B) {
	b.Helper()
	const period = 200 * time.Millisecond
	for deadline, before := time.Now().Add(5*time.Minute), cpuTime(b); ; {
		time.Sleep(period)
		now := cpuTime(b)
		if now-before < period/50 {
			return
		}
		if before = now; time.Now().After(deadline) {
			b.Fatal("the controller is still busy")
		}
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func fleet(pools, slices, devices int) *DriverResources {
	out := &DriverResources{Pools: make(map[string]Pool)}
	for p := range pools {
		pool := Pool{AllNodes: true, Slices: make([]Slice, slices)}
		for i := range pool.Slices {
			for d := range devices {
				device := benchmarkDevice(d, "old")
				device.Name = fmt.Sprintf("gpu-%d-%d", i, d)
				pool.Slices[i].Devices = append(pool.Slices[i].Devices, device)
			}
		}
		out.Pools[fmt.Sprint("pool-", p)] = pool
	}
	return out
}

func benchmarkDevice(n int, model string) resourceapi.Device {
	out := device(fmt.Sprint("changed-", n), model)
	for i := range 5 {
		out.Attributes[resourceapi.QualifiedName(fmt.Sprint("attribute-", i))] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(n))}
	}
	return out
}
