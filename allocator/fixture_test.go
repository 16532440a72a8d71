// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// mustParse reads an object from YAML.
func mustParse[T any](text string) *T {
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "\t", "  ")), object); err != nil {
		panic(err)
	}
	return object
}

var gpuClass = mustParse[resourceapi.DeviceClass](`
metadata: {name: gpu}
spec:
	selectors:
	- cel: {expression: device.driver == "gpu.example.com"}
`)

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// gpus is a slice of n GPUs on a node, gpu-0 to gpu-(n-1), two per PCIe root.
func gpus(node string, n int, model string) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-gpus"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver:   "gpu.example.com",
			NodeName: &node,
			Pool:     resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range n {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"model": {StringValue: &model},
				"root":  {StringValue: ptr.To(fmt.Sprintf("pci-%d", i/2))},
			},
		})
	}
	return slice
}

// claim asks for GPUs, one request per count: "r0", "r1" and so on.
func claim(name string, counts ...int64) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	for i, count := range counts {
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, resourceapi.DeviceRequest{
			Name: fmt.Sprintf("r%d", i),
			Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "gpu",
				AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
				Count:           count,
			},
		})
	}
	return c
}

// selecting adds a CEL selector to all requests of a claim.
func selecting(c *resourceapi.ResourceClaim, expression string) *resourceapi.ResourceClaim {
	for i := range c.Spec.Devices.Requests {
		exactly := c.Spec.Devices.Requests[i].Exactly
		exactly.Selectors = append(exactly.Selectors, resourceapi.DeviceSelector{
			CEL: &resourceapi.CELDeviceSelector{Expression: expression},
		})
	}
	return c
}

// sameRoot wants the devices of all requests of a claim on one PCIe root.
func sameRoot(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, resourceapi.DeviceConstraint{
		MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.example.com/root")),
	})
	return c
}

// cluster is a snapshot with nothing in use.
func clusterOf(slices ...*resourceapi.ResourceSlice) *pools.Ledger {
	return pools.NewLedger(pools.Build(allocator.AllFeatures().PoolGates(), slices))
}

func compile(options allocator.Options, claims ...*resourceapi.ResourceClaim) *allocator.Problem {
	options.Features = allocator.AllFeatures()
	problem, err := allocator.New(options).Compile(claims, allocator.ClassMap(gpuClass))
	if err != nil {
		panic(err)
	}
	return problem
}

// chosen lists the devices of an assignment by claim and request.
func chosen(outcome allocator.Outcome) string {
	assignment, ok := outcome.(*allocator.Assignment)
	if !ok {
		return fmt.Sprintf("%T", outcome)
	}
	var devices []string
	for _, c := range assignment.Choices() {
		devices = append(devices, fmt.Sprintf("%s=%s", c.Request, c.Device.Device))
	}
	return strings.Join(devices, " ")
}

// unique gives each device a serial number.
func unique(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	for i := range slice.Spec.Devices {
		d := &slice.Spec.Devices[i]
		d.Attributes["uuid"] = resourceapi.DeviceAttribute{StringValue: ptr.To(d.Name)}
	}
	return slice
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

// fewer is how many of n cases there is time for: all in make soak-cases, which says so by its
// environment, and half of them else. The race detector, under which tests run with -short, is
// about concurrency, not about cases.
func fewer(n int) int {
	switch {
	case testing.Short():
		return n / 10
	case os.Getenv("DRAY_CASES") == "all":
		return n
	}
	return n / 2
}

// holder is a claim that has a device.
func holder(name string, d *smallDevice) *resourceapi.ResourceClaim {
	c := claim(name, 1)
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "r0", Driver: d.Driver, Pool: d.Pool, Device: d.Device},
	}}}
	if d.step > 0 {
		result := &c.Status.Allocation.Devices.Results[0]
		result.ShareID = ptr.To(types.UID(name))
		result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{memory: *resource.NewQuantity(d.inUse, resource.DecimalSI)}
	}
	return c
}

// describeOutcome is what smallCase.describe says of a solution.
func describeOutcome(outcome allocator.Outcome) string {
	assignment, ok := outcome.(*allocator.Assignment)
	if !ok {
		return "none"
	}
	text := ""
	var results []resourceapi.DeviceRequestAllocationResult
	for _, of := range assignment.Results() {
		results = append(results, of.Devices.Results...)
	}
	for i, c := range assignment.Choices() {
		text += fmt.Sprintf("%d/%s=%s of %s", c.Claim, c.Request, c.Device, c.Class)
		if taken, shared := results[i].ConsumedCapacity[memory]; shared {
			text += " taking " + taken.String()
		}
		text += "; "
	}
	for _, m := range assignment.Missed() {
		text += fmt.Sprintf("without preference %d; ", m.Rank)
	}
	return text
}
