// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
)

// gpuSlice lists the GPUs of a node.
func gpuSlice(node string, gpus int) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{}
	slice.Name = node + "-gpus"
	slice.Spec = resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: ptr.To(node), Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
	}
	for i := range gpus {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i)})
	}
	return slice
}

func nodeNamed(name string) *corev1.Node {
	node := &corev1.Node{}
	node.Name = name
	return node
}

// gpuPods asks for a number of GPUs each.
func gpuPods(template string, n int) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range n {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = "default", fmt.Sprintf("%s-%d", template, i)
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: &template}}
		pods = append(pods, pod)
	}
	return pods
}

func gpuTemplate(name string, count int64) *resourceapi.ResourceClaimTemplate {
	template := &resourceapi.ResourceClaimTemplate{}
	template.Namespace, template.Name = "default", name
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpus", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
	}}}
	return template
}

// gpuCluster has nodes with 4 GPUs each, and templates for pods with one, two and three of them.
func gpuCluster(nodes ...string) simulate.Cluster {
	class := &resourceapi.DeviceClass{}
	class.Name = "gpu"
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}}
	c := simulate.Cluster{
		Classes:   []*resourceapi.DeviceClass{class},
		Templates: []*resourceapi.ResourceClaimTemplate{gpuTemplate("one", 1), gpuTemplate("two", 2), gpuTemplate("three", 3)},
	}
	for _, name := range nodes {
		c.Nodes = append(c.Nodes, nodeNamed(name))
		c.Slices = append(c.Slices, gpuSlice(name, 4))
	}
	return c
}

// A scale-up: which group of nodes takes the pending pods, and how many nodes of it?
func Example_scaleUp() {
	ctx := context.Background()
	state, err := simulate.Open(gpuCluster("a"), simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		panic(err)
	}
	shapes, err := state.Shapes(slices.Concat(gpuPods("one", 5), gpuPods("three", 4)))
	if err != nil {
		panic(err)
	}
	for _, gpus := range []int{4, 8} {
		name := fmt.Sprintf("gpu%d", gpus)
		template, err := state.Template(simulate.TemplateSpec{Node: nodeNamed(name), Slices: []*resourceapi.ResourceSlice{gpuSlice(name, gpus)}})
		if err != nil {
			panic(err)
		}
		sim, placed := state.Sim(), 0
		for _, shape := range shapes {
			on := simulate.Union(simulate.Real(nil), simulate.New(template, 0))
			result, err := sim.PlaceMany(ctx, shape, len(shape.Pods), on, simulate.FirstFit)
			if err != nil {
				panic(err)
			}
			placed += result.Placed
		}
		nodes, _ := sim.Added(template)
		fmt.Printf("%s: %d pods on %d new nodes\n", name, placed, nodes)
	}
	// Output:
	// gpu4: 9 pods on 4 new nodes
	// gpu8: 9 pods on 2 new nodes
}

// Consolidation: which nodes can go, one after the other?
// Which nodes could go, each by itself, without draining them.
func ExampleState_Drainable() {
	ctx := context.Background()
	state, err := simulate.Open(gpuCluster("a", "b", "c"), simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		panic(err)
	}
	shapes, err := state.Shapes(gpuPods("three", 2))
	if err != nil {
		panic(err)
	}
	sim := state.Sim()
	if _, err := sim.PlaceMany(ctx, shapes[0], 2, simulate.Real(nil), simulate.Spread); err != nil {
		panic(err)
	}
	departures, err := sim.State().Drainable(ctx, simulate.Real(nil), simulate.Real(nil), simulate.FirstFit)
	if err != nil {
		panic(err)
	}
	for _, d := range departures {
		fmt.Printf("%s can go: %t\n", d.Node.Name(), d.Possible)
	}
	// Output:
	// a can go: true
	// b can go: true
	// c can go: true
}

func Example_consolidation() {
	ctx := context.Background()
	state, err := simulate.Open(gpuCluster("a", "b", "c"), simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		panic(err)
	}
	shapes, err := state.Shapes(gpuPods("two", 3))
	if err != nil {
		panic(err)
	}
	sim := state.Sim()
	if _, err := sim.PlaceMany(ctx, shapes[0], 3, simulate.Real(nil), simulate.Spread); err != nil {
		panic(err)
	}
	for _, node := range []string{"a", "b", "c"} {
		result, err := sim.Drain(ctx, simulate.Real(nil), simulate.FirstFit, node)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s can go: %t\n", node, result.All())
	}
	// Output:
	// a can go: true
	// b can go: false
	// c can go: false
}

// A capacity report: how many more pods of each shape fit?
func Example_capacity() {
	ctx := context.Background()
	state, err := simulate.Open(gpuCluster("a", "b"), simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		panic(err)
	}
	shapes, err := state.Shapes(slices.Concat(gpuPods("one", 1), gpuPods("two", 1), gpuPods("three", 1)))
	if err != nil {
		panic(err)
	}
	for _, shape := range shapes {
		fit, err := state.FitsMany(ctx, shape, simulate.Real(nil))
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %d\n", shape.Pods[0].Name, fit.Pods)
	}
	// Output:
	// three-0: 2
	// two-0: 4
	// one-0: 8
}

// Admission by a queue that counts devices: a workload starts if its queue has quota left, and only
// if all its pods would get their devices at once on nodes of the queue's flavor. Quota alone would
// admit the second workload, of which no pod gets three GPUs on one node any more.
func Example_admission() {
	ctx := context.Background()
	cluster := gpuCluster("a", "b", "c")
	for i, flavor := range []string{"spot", "reserved", "reserved"} {
		cluster.Nodes[i].Labels = map[string]string{"flavor": flavor}
	}
	state, err := simulate.Open(cluster, simulate.Options{Features: allocator.AllFeatures()})
	if err != nil {
		panic(err)
	}
	sim := state.Sim()
	flavor := simulate.Real(func(node *corev1.Node) bool { return node.Labels["flavor"] == "reserved" })
	quota := 8 // GPUs
	for _, workload := range []struct {
		name          string
		pods, perPod  int
		claimTemplate string
	}{{"train", 2, 2, "two"}, {"tune", 1, 3, "three"}, {"serve", 4, 1, "one"}, {"extra", 1, 1, "one"}} {
		need := workload.pods * workload.perPod
		if need > quota {
			fmt.Printf("%s waits for quota: %d GPUs of %d\n", workload.name, need, quota)
			continue
		}
		shapes, err := state.Shapes(gpuPods(workload.claimTemplate, workload.pods))
		if err != nil {
			panic(err)
		}
		fit, err := sim.State().FitsMany(ctx, shapes[0], flavor)
		if err != nil {
			panic(err)
		}
		if fit.Pods < workload.pods {
			fmt.Printf("%s waits for devices: %d pods of %d fit\n", workload.name, fit.Pods, workload.pods)
			continue
		}
		if _, err := sim.PlaceMany(ctx, shapes[0], workload.pods, flavor, simulate.Spread); err != nil {
			panic(err)
		}
		quota -= need
		fmt.Printf("%s starts, %d GPUs of quota left\n", workload.name, quota)
	}
	// Output:
	// train starts, 4 GPUs of quota left
	// tune waits for devices: 0 pods of 1 fit
	// serve starts, 0 GPUs of quota left
	// extra waits for quota: 1 GPUs of 0
}
