// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// uniqueSelectors ask for a device by its serial number, in the forms that people write. %[1]s is the serial number.
var uniqueSelectors = []struct{ name, form string }{
	{"equal", `device.attributes["gpu.example.com"].serial == "%[1]s"`},
	{"in", `device.attributes["gpu.example.com"].serial in ["%[1]s", "%[1]s-b"]`},
	{"or", `device.attributes["gpu.example.com"].serial == "%[1]s" || device.attributes["gpu.example.com"].serial == "%[1]s-b"`},
	{"unequal", `device.driver != "other" && !(device.attributes["gpu.example.com"].serial != "%[1]s")`},
	{"startsWith", `device.attributes["gpu.example.com"].serial.startsWith("%[1]s")`},
	{"matches", `device.attributes["gpu.example.com"].serial.matches("^%[1]s$")`},
	{"has", `has(device.attributes["gpu.example.com"].serial) && device.attributes["gpu.example.com"].serial == "%[1]s"`},
	{"optional", `device.attributes["gpu.example.com"].?serial.orValue("") == "%[1]s"`},
	{"other", `device.attributes["gpu.example.com"].serial.lowerAscii() == "%[1]s"`},
}

// BenchmarkUniqueValue asks for one of 64,000 devices in reach of a node by a value that no other device has. "First" asks an
// allocator that was asked nothing before, "again" asks for another device than before each time.
func BenchmarkUniqueValue(b *testing.B) {
	const devices = 64_000
	cluster := &benchCluster{nodes: []*corev1.Node{node("node-0")}, slices: uniqueDevices(devices)}
	for _, selector := range uniqueSelectors {
		for _, at := range []struct {
			name  string
			first int
		}{{"front", 0}, {"middle", devices / 2}, {"back", devices - 100}} {
			ask := func(b *testing.B, p placer, n int) {
				c := selecting(claim("pod", 1), fmt.Sprintf(selector.form, serial(at.first+n%100)))
				c.UID = types.UID("pod")
				results, err := p.place(b.Context(), []*resourceapi.ResourceClaim{c})
				if want := deviceNamed(at.first + n%100); err != nil || results[0].Devices.Results[0].Device != want {
					b.Fatalf("%v, %v: want %s", results, err, want)
				}
			}
			for _, impl := range []struct {
				name string
				open func(*testing.B, *benchCluster) placer
			}{{"upstream", openUpstream}, {"dray", openDray}} {
				name := fmt.Sprintf("selector=%s/at=%s/impl=%s/", selector.name, at.name, impl.name)
				b.Run(name+"first", func(b *testing.B) {
					b.ReportAllocs()
					cpu := time.Duration(0)
					for b.Loop() {
						b.StopTimer()
						p, since := impl.open(b, cluster), cpuTime()
						b.StartTimer()
						ask(b, p, 0)
						cpu += cpuTime() - since
					}
					b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
				})
				b.Run(name+"again", func(b *testing.B) {
					p := impl.open(b, cluster)
					ask(b, p, 0)
					b.ReportAllocs()
					n, since := 0, cpuTime()
					for b.Loop() {
						n++
						ask(b, p, n)
					}
					b.ReportMetric(float64(cpuTime()-since)/float64(b.N), "cpu-ns/op")
				})
			}
		}
	}
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func serial(n int) string { return fmt.Sprintf("s%05d", n) }

func deviceNamed(n int) string { return fmt.Sprintf("gpu-%d", n) }

// uniqueDevices are slices of one pool for all nodes. Each device has a serial number.
func uniqueDevices(count int) (all []*resourceapi.ResourceSlice) {
	const ofSlice = 128
	for first := 0; first < count; first += ofSlice {
		slice := gpus("all", 0, "")
		slice.Name = fmt.Sprintf("slice-%05d", first)
		slice.Spec.NodeName, slice.Spec.AllNodes = nil, ptr.To(true)
		slice.Spec.Pool.ResourceSliceCount = int64((count + ofSlice - 1) / ofSlice)
		for i := first; i < min(first+ofSlice, count); i++ {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
				Name: deviceNamed(i),
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
					"model": {StringValue: ptr.To("H100")}, "serial": {StringValue: ptr.To(serial(i))},
				},
			})
		}
		all = append(all, slice)
	}
	return all
}
