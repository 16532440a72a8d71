package allocator_test

import (
	"context"
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
)

// Inputs on which trying everything takes time that is exponential in a size: K. Each
// must be decided, with a number of steps that grows no faster than a small power of K.
func TestCliffs(t *testing.T) {
	for _, cliff := range []struct {
		name   string
		build  func(k int) ([]*resourceapi.ResourceSlice, []*resourceapi.ResourceClaim)
		fits   bool
		budget func(k int) int
	}{
		{"one device too few", func(k int) ([]*resourceapi.ResourceSlice, []*resourceapi.ResourceClaim) {
			return sliceList(unique(gpus("n", k-1, "H100"))), claimList(claim("c", ones(k)...))
		}, false, func(k int) int { return 20 + k*k }},
		{"no group is large enough", func(k int) ([]*resourceapi.ResourceSlice, []*resourceapi.ResourceClaim) {
			return sliceList(grouped(8, k-1)), claimList(sameRoot(claim("c", ones(k)...)))
		}, false, func(k int) int { return 100 + 2*k*k }},
		{"only the last group is large enough", func(k int) ([]*resourceapi.ResourceSlice, []*resourceapi.ResourceClaim) {
			slice := grouped(8, k-1)
			slice.Spec.Devices = append(slice.Spec.Devices, grouped(1, k).Spec.Devices...)
			for i := range slice.Spec.Devices {
				if i >= 8*(k-1) {
					slice.Spec.Devices[i].Name = fmt.Sprintf("last-%d", i)
					slice.Spec.Devices[i].Attributes["root"] = resourceapi.DeviceAttribute{StringValue: ptr.To("last")}
				}
			}
			return sliceList(slice), claimList(sameRoot(claim("c", ones(k)...)))
		}, true, func(k int) int { return 40 + 12*k*k }},
		{"one count over groups that are too small", func(k int) ([]*resourceapi.ResourceSlice, []*resourceapi.ResourceClaim) {
			return sliceList(grouped(8, k-1)), claimList(sameRoot(claim("c", int64(k))))
		}, false, func(k int) int { return 40 + k*k }},
		{"one distinct value too few", func(k int) ([]*resourceapi.ResourceSlice, []*resourceapi.ResourceClaim) {
			return sliceList(unique(grouped(k-1, 4))), claimList(otherRoots(claim("c", ones(k)...)))
		}, false, func(k int) int { return 20 + 3*k*k }},
		{"shares of which one fits a device", func(k int) ([]*resourceapi.ResourceSlice, []*resourceapi.ResourceClaim) {
			return sliceList(shared(unique(gpus("n", k-1, "H100")))), claimList(sharing(claim("c", ones(k)...)))
		}, false, func(k int) int { return 20 + k*k }},
		{"eight partitions where seven fit", func(k int) ([]*resourceapi.ResourceSlice, []*resourceapi.ResourceClaim) {
			return partitioned(min(k, 8), 7), crowd(min(k, 8)*7 + 1)
		}, false, func(k int) int { return 200 * min(k, 8) * min(k, 8) }},
		{"a claim that starves another", func(k int) ([]*resourceapi.ResourceSlice, []*resourceapi.ResourceClaim) {
			special := selecting(claim("picky", 1), `device.attributes["gpu.example.com"].root == "pci-0" && device.attributes["gpu.example.com"].uuid == "gpu-0"`)
			return sliceList(unique(gpus("n", k, "H100"))), claimList(claim("c", ones(k-1)...), special)
		}, true, func(k int) int { return 20 + 2*k*k }},
	} {
		t.Run(cliff.name, func(t *testing.T) {
			for _, k := range []int{4, 8, 16, 31} {
				all, asked := cliff.build(k)
				ledger := cluster(all...)
				problem := compile(allocator.Options{}, asked...)
				outcome, err := problem.Allocate(context.Background(), ledger.Snapshot(), ledger.Usage(), node("n"))
				if err != nil {
					t.Fatal(err)
				}
				if _, fits := outcome.(*allocator.Assignment); fits != cliff.fits {
					t.Errorf("k=%d: %s", k, chosen(outcome))
				}
				t.Logf("k=%d: %+v", k, outcome.Stats())
				if int(outcome.Stats().Steps) > cliff.budget(k) {
					t.Errorf("k=%d: %d steps, at most %d expected", k, outcome.Stats().Steps, cliff.budget(k))
				}
			}
		})
	}
}

func sliceList(all ...*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice { return all }
func claimList(all ...*resourceapi.ResourceClaim) []*resourceapi.ResourceClaim { return all }

// crowd is claims for n devices in all, of 16 requests at the most.
func crowd(n int) []*resourceapi.ResourceClaim {
	var all []*resourceapi.ResourceClaim
	for ; n > 0; n -= 16 {
		all = append(all, claim(fmt.Sprintf("c%d", len(all)), ones(min(n, 16))...))
	}
	return all
}

func ones(k int) []int64 {
	counts := make([]int64, k)
	for i := range counts {
		counts[i] = 1
	}
	return counts
}

// unique gives each device a serial number.
func unique(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	for i := range slice.Spec.Devices {
		d := &slice.Spec.Devices[i]
		d.Attributes["uuid"] = resourceapi.DeviceAttribute{StringValue: ptr.To(d.Name)}
	}
	return slice
}

// grouped is a slice with n groups of the given size that share a PCIe root.
func grouped(n, size int) *resourceapi.ResourceSlice {
	slice := gpus("n", n*size, "H100")
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Attributes["root"] = resourceapi.DeviceAttribute{StringValue: ptr.To(fmt.Sprintf("root-%d", i/size))}
	}
	return slice
}

func otherRoots(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, resourceapi.DeviceConstraint{DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.example.com/root"))})
	return c
}

// shared makes the devices of a slice shareable, with a bandwidth of 100.
func shared(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].AllowMultipleAllocations = ptr.To(true)
		slice.Spec.Devices[i].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"bandwidth": {Value: resource.MustParse("100"), RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse("60"))}},
		}
	}
	return slice
}

// sharing asks for 60 of the bandwidth in each request.
func sharing(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	for i := range c.Spec.Devices.Requests {
		c.Spec.Devices.Requests[i].Exactly.Capacity = &resourceapi.CapacityRequirements{
			Requests: map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse("60")},
		}
	}
	return c
}

// partitioned is k GPUs of so many memory slices, in partitions of 1, 2, 4 and all.
func partitioned(k, memory int) []*resourceapi.ResourceSlice {
	devices, counters := gpus("n", 0, ""), gpus("n", 0, "")
	devices.Spec.Pool.ResourceSliceCount, counters.Spec.Pool.ResourceSliceCount = 2, 2
	counters.Name = "n-counters"
	for gpu := range k {
		set := fmt.Sprintf("gpu-%d", gpu)
		amount := func(n int) map[string]resourceapi.Counter {
			return map[string]resourceapi.Counter{"memory": {Value: *resource.NewQuantity(int64(n), resource.DecimalSI)}}
		}
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourceapi.CounterSet{Name: set, Counters: amount(memory)})
		for _, size := range []int{1, 2, 4, memory} {
			for at := 0; at+size <= memory; at++ {
				devices.Spec.Devices = append(devices.Spec.Devices, resourceapi.Device{
					Name:             fmt.Sprintf("%s-%d-at-%d", set, size, at),
					ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: amount(size)}},
				})
			}
		}
	}
	return sliceList(devices, counters)
}
