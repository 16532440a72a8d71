// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
)

const (
	gpuDriver = "gpu.example.com"
	nicDriver = "nic.example.com"
	// racks is the number of racks.
	racks = 50
)

// world is a cluster as autoscalers see it: most devices are in use, and each has a unique uuid.
type world struct {
	cluster simulate.Cluster
	options simulate.Options
	shapes  []*corev1.Pod // one pod of each shape
	specs   []simulate.TemplateSpec
}

// newWorld returns a cluster with nodes of 8 GPUs and 8 NICs. On one node in twenty, GPUs are
// partitioned. It places pods until nine tenths are in use.
func newWorld(ctx context.Context, nodes, pods int) (*world, error) {
	w := &world{options: simulate.Options{Features: allocator.AllFeatures()}}
	w.cluster.Classes = []*resourceapi.DeviceClass{
		class("gpu", `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].type == "gpu"`),
		class("mig", `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].type == "mig"`),
		class("nic", `device.driver == "nic.example.com"`),
	}
	for i := range nodes {
		kind := nodeKind{model: i % 3, partitioned: i%20 == 19}
		node := newNode(fmt.Sprintf("node-%04d", i), kind)
		node.Labels["topology.kubernetes.io/zone"] = fmt.Sprintf("zone-%d", i%3)
		node.Labels["rack"] = fmt.Sprintf("rack-%02d", i*racks/nodes)
		w.cluster.Nodes = append(w.cluster.Nodes, node)
		w.cluster.Slices = append(w.cluster.Slices, slicesOf(node.Name, kind)...)
	}
	w.addShapes()
	for i := range 20 {
		kind := nodeKind{model: i % 3, partitioned: i%5 == 4, gpus: 1 + i%8}
		name := fmt.Sprintf("template-%02d", i)
		node := newNode(name, kind)
		node.Labels["topology.kubernetes.io/zone"] = fmt.Sprintf("zone-%d", i%3)
		w.specs = append(w.specs, simulate.TemplateSpec{Node: node, Slices: slicesOf(name, kind)})
	}
	return w, w.fill(ctx, pods)
}

// nodeKind describes the devices of a node.
type nodeKind struct {
	model       int
	partitioned bool
	gpus        int // 0 stands for 8
}

func newNode(name string, kind nodeKind) *corev1.Node {
	node := &corev1.Node{}
	node.Name = name
	node.Labels = map[string]string{corev1.LabelHostname: name, "model": fmt.Sprintf("model-%d", kind.model)}
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("192"), corev1.ResourcePods: resource.MustParse("250")}
	return node
}

func slicesOf(node string, kind nodeKind) []*resourceapi.ResourceSlice {
	if kind.gpus == 0 {
		kind.gpus = 8
	}
	var gpus, nics []resourceapi.Device
	var counters []resourceapi.CounterSet
	for i := range kind.gpus {
		root := fmt.Sprintf("pci-%02d", i)
		nics = append(nics, newDevice(fmt.Sprintf("nic-%d", i), nicDriver, map[string]string{"uuid": node + "-nic-" + root, "pcieRoot": root}, "100"))
		if !kind.partitioned {
			gpus = append(gpus, newGPU(fmt.Sprintf("gpu-%d", i), node, root, kind.model, "gpu", "80Gi"))
			continue
		}
		set := fmt.Sprintf("card-%d", i)
		counters = append(counters, resourceapi.CounterSet{Name: set, Counters: map[string]resourceapi.Counter{
			"memory": {Value: resource.MustParse("80Gi")}, "slices": {Value: resource.MustParse("7")},
		}})
		gpus = append(gpus, partitions(i, node, root, kind.model, set)...)
	}
	all := []*resourceapi.ResourceSlice{newSlice(node, nicDriver, "nic", nics), newSlice(node, gpuDriver, "gpu", gpus)}
	if len(counters) > 0 {
		all = append(all, newSlice(node, gpuDriver, "counters", nil))
		all[2].Spec.SharedCounters = counters
		all[1].Spec.Pool.ResourceSliceCount, all[2].Spec.Pool.ResourceSliceCount = 2, 2
	}
	return all
}

func newSlice(node, driver, name string, devices []resourceapi.Device) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{}
	slice.Name = node + "-" + name
	slice.Spec = resourceapi.ResourceSliceSpec{
		Driver: driver, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}, NodeName: ptr.To(node), Devices: devices,
	}
	return slice
}

// partitions returns the thirteen possible partitions of a GPU, including the whole.
func partitions(card int, node, root string, model int, set string) []resourceapi.Device {
	var list []resourceapi.Device
	for _, profile := range []struct {
		name          string
		count, slices int
		memory        string
	}{{"1g", 7, 1, "10Gi"}, {"2g", 3, 2, "20Gi"}, {"3g", 2, 3, "40Gi"}, {"7g", 1, 7, "80Gi"}} {
		for i := range profile.count {
			d := newGPU(fmt.Sprintf("gpu-%d-%s-%d", card, profile.name, i), node, root, model, "mig", profile.memory)
			d.Attributes["profile"] = resourceapi.DeviceAttribute{StringValue: ptr.To(profile.name)}
			d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: map[string]resourceapi.Counter{
				"memory": {Value: resource.MustParse(profile.memory)}, "slices": {Value: *resource.NewQuantity(int64(profile.slices), resource.DecimalSI)},
			}}}
			list = append(list, d)
		}
	}
	return list
}

func newGPU(name, node, root string, model int, kind, memory string) resourceapi.Device {
	return newDevice(name, gpuDriver, map[string]string{
		"uuid": node + "-" + name, "pcieRoot": root, "model": fmt.Sprintf("model-%d", model), "type": kind,
	}, memory)
}

func newDevice(name, _ string, attributes map[string]string, memory string) resourceapi.Device {
	d := resourceapi.Device{Name: name, Attributes: make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)}
	for key, value := range attributes {
		if key == "pcieRoot" {
			key = "resource.kubernetes.io/pcieRoot"
		}
		d.Attributes[resourceapi.QualifiedName(key)] = resourceapi.DeviceAttribute{StringValue: ptr.To(value)}
	}
	d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(memory)}}
	return d
}

func class(name, expression string) *resourceapi.DeviceClass {
	c := &resourceapi.DeviceClass{}
	c.Name = name
	c.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
	return c
}

// addShapes adds twelve shapes of pods, with a claim template each.
func (w *world) addShapes() {
	gpus := func(n int64) resourceapi.DeviceRequest { return request("gpu", "gpu", n, "") }
	nics := func(n int64) resourceapi.DeviceRequest { return request("nic", "nic", n, "") }
	model := func(n int64, m int) resourceapi.DeviceRequest {
		return request("gpu", "gpu", n, fmt.Sprintf(`device.attributes["gpu.example.com"].model == "model-%d"`, m))
	}
	mig := func(profile string) resourceapi.DeviceRequest {
		return request("part", "mig", 1, fmt.Sprintf(`device.attributes["gpu.example.com"].profile == %q`, profile))
	}
	same := resourceapi.DeviceConstraint{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("resource.kubernetes.io/pcieRoot"))}
	large := request("gpu", "gpu", 1, `device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0`)
	either := resourceapi.DeviceRequest{Name: "any", FirstAvailable: []resourceapi.DeviceSubRequest{
		{Name: "large", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2},
		{Name: "part", DeviceClassName: "mig", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
	}}
	for i, claim := range []resourceapi.DeviceClaim{
		{Requests: []resourceapi.DeviceRequest{gpus(1)}},
		{Requests: []resourceapi.DeviceRequest{mig("1g")}},
		{Requests: []resourceapi.DeviceRequest{gpus(1), nics(1)}, Constraints: []resourceapi.DeviceConstraint{same}},
		{Requests: []resourceapi.DeviceRequest{model(1, 0)}},
		{Requests: []resourceapi.DeviceRequest{mig("3g")}},
		{Requests: []resourceapi.DeviceRequest{model(1, 1)}},
		{Requests: []resourceapi.DeviceRequest{gpus(2)}},
		{Requests: []resourceapi.DeviceRequest{large}},
		{Requests: []resourceapi.DeviceRequest{either}},
		{Requests: []resourceapi.DeviceRequest{nics(1)}},
		{Requests: []resourceapi.DeviceRequest{gpus(4)}},
		{Requests: []resourceapi.DeviceRequest{gpus(8), nics(2)}},
	} {
		template := &resourceapi.ResourceClaimTemplate{}
		template.Namespace, template.Name = "default", fmt.Sprintf("shape-%02d", i)
		template.Spec.Spec.Devices = claim
		w.cluster.Templates = append(w.cluster.Templates, template)
		w.shapes = append(w.shapes, newPod(template.Name, i))
	}
}

func newPod(name string, shape int) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", name, types.UID(name)
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: ptr.To(fmt.Sprintf("shape-%02d", shape))}}
	return pod
}

func request(name, class string, count int64, selector string) resourceapi.DeviceRequest {
	e := &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
	if selector != "" {
		e.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}}
	}
	return resourceapi.DeviceRequest{Name: name, Exactly: e}
}

// fill adds pods with allocated claims.
func (w *world) fill(ctx context.Context, pods int) error {
	state, err := simulate.Open(w.cluster, w.options)
	if err != nil {
		return err
	}
	sim := state.Sim()
	for i := range pods {
		// Nine of ten pods request one GPU or a partition.
		shape := []int{0, 3, 5, 0, 1, 2, 0, 5, 3, i / 10 % 12}[i%10]
		pod := newPod(fmt.Sprintf("pod-%05d", i), shape)
		result, err := sim.Place(ctx, pod, simulate.Real(nil), simulate.Spread)
		if err != nil {
			return err
		}
		for placement := range result.Placements() {
			claims, err := placement.Claims(ctx)
			if err != nil {
				return err
			}
			w.run(pod, placement.Node.Name(), claims)
		}
	}
	return nil
}

// run adds a pod with its claims to the cluster.
func (w *world) run(pod *corev1.Pod, node string, claims []*resourceapi.ResourceClaim) {
	pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
	for _, claim := range claims {
		claim.Name, claim.UID = pod.Name+"-devices", types.UID(pod.Name+"-devices")
		claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
		pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: "devices", ResourceClaimName: ptr.To(claim.Name)})
		w.cluster.Claims = append(w.cluster.Claims, claim)
	}
	w.cluster.Pods = append(w.cluster.Pods, pod)
}
