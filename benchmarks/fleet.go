package benchmarks

import (
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
)

const (
	gpuDriver   = "gpu.example.com"
	gpusPerNode = 8
)

// fleet is a cluster of equal nodes with eight GPUs each, one slice a node, and a pod
// that wants one GPU of a model. The first used GPUs of each node are allocated.
func fleet(nodes, used int, model string) *alloctest.Case {
	c := &alloctest.Case{
		Name:     fmt.Sprintf("fleet of %d nodes", nodes),
		Features: allocator.AllFeatures(),
		Classes:  []*resourceapi.DeviceClass{gpuClass()},
		Claims:   []*resourceapi.ResourceClaim{gpuClaim(model)},
	}
	for n := range nodes {
		name := fmt.Sprintf("node-%d", n)
		c.Nodes = append(c.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}})
		c.Slices = append(c.Slices, gpuSlice(name))
		if used > 0 {
			c.Allocated = append(c.Allocated, holding(name, used))
		}
	}
	c.Node = c.Nodes[0].Name
	return c
}

func selecting(expression string) []resourceapi.DeviceSelector {
	return []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
}

func gpuClass() *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec:       resourceapi.DeviceClassSpec{Selectors: selecting(`device.driver == "gpu.example.com"`)},
	}
}

func gpuClaim(model string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pending"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{
				Name: "gpu",
				Exactly: &resourceapi.ExactDeviceRequest{
					DeviceClassName: "gpu",
					AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
					Count:           1,
					Selectors:       selecting(fmt.Sprintf(`device.attributes["gpu.example.com"].model == %q`, model)),
				},
			}},
		}},
	}
}

func gpuSlice(node string) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver:   gpuDriver,
			NodeName: &node,
			Pool:     resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range gpusPerNode {
		slice.Spec.Devices = append(slice.Spec.Devices, gpu(node, i))
	}
	return slice
}

// gpu has ten attributes, of which one is unique, as drivers publish them.
func gpu(node string, i int) resourceapi.Device {
	text := func(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }
	version := func(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{VersionValue: &s} }
	number := func(n int64) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{IntValue: &n} }
	return resourceapi.Device{
		Name: fmt.Sprintf("gpu-%d", i),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"uuid":              text(fmt.Sprintf("GPU-%.16x", sha256.Sum256(fmt.Appendf(nil, "%s/%d", node, i)))),
			"model":             text("H100"),
			"brand":             text("Example"),
			"architecture":      text("Hopper"),
			"driverVersion":     version("560.35.3"),
			"cudaDriverVersion": version("12.6.0"),
			"computeCapability": version("9.0.0"),
			"index":             number(int64(i)),
			"numa":              number(int64(i / 4)),
			"ecc":               {BoolValue: ptr.To(true)},
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
	}
}

// holding is a claim that has the first GPUs of a node.
func holding(node string, used int) *resourceapi.ResourceClaim {
	claim := gpuClaim("H100")
	claim.Name = node + "-running"
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for i := range used {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "gpu", Driver: gpuDriver, Pool: node, Device: fmt.Sprintf("gpu-%d", i),
		})
	}
	return claim
}
