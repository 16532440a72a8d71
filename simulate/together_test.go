// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/simulate"
)

// parts is a cluster with GPUs that can be had whole or in parts, in numbers: what there is can be enumerated.
type parts struct {
	gpus [][]int // by node: how many parts each GPU has
	cpu  []int   // of nodes
	zone []int   // of nodes
	pods []partPod
}

// partPod wants a number of parts of one GPU, the first of the list that there is.
type partPod struct {
	wants []int
	cpu   int
	zone  int // in which it has to run; below zero for any
}

// together reports whether there is a way to place the pods from one on.
func (p *parts) together(from int) bool {
	if from == len(p.pods) {
		return true
	}
	pod := p.pods[from]
	for n := range p.gpus {
		if p.cpu[n] < pod.cpu || pod.zone >= 0 && pod.zone != p.zone[n] {
			continue
		}
		for g := range p.gpus[n] {
			for _, want := range pod.wants {
				if p.gpus[n][g] < want {
					continue
				}
				p.gpus[n][g], p.cpu[n] = p.gpus[n][g]-want, p.cpu[n]-pod.cpu
				fits := p.together(from + 1)
				p.gpus[n][g], p.cpu[n] = p.gpus[n][g]+want, p.cpu[n]+pod.cpu
				if fits {
					return true
				}
			}
		}
	}
	return false
}

// cluster has a device for each part of each size of each GPU: of four parts, the whole, two halves and four quarters.
func (p *parts) cluster() simulate.Cluster {
	class := &resourceapi.DeviceClass{}
	class.Name = "part"
	c := simulate.Cluster{Classes: []*resourceapi.DeviceClass{class}}
	for n := range p.gpus {
		node := nodeNamed(fmt.Sprint("node-", n))
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(p.cpu[n]), resource.DecimalSI)}
		node.Labels = map[string]string{"zone": fmt.Sprint(p.zone[n])}
		pool := resourceapi.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 2}
		sets, devices := &resourceapi.ResourceSlice{}, &resourceapi.ResourceSlice{}
		sets.Name, devices.Name = node.Name+"-sets", node.Name+"-devices"
		for _, slice := range []*resourceapi.ResourceSlice{sets, devices} {
			slice.Spec.Driver, slice.Spec.Pool, slice.Spec.NodeName = "gpu.example.com", pool, &node.Name
		}
		for g, has := range p.gpus[n] {
			set := fmt.Sprint("gpu-", g)
			sets.Spec.SharedCounters = append(sets.Spec.SharedCounters, resourceapi.CounterSet{Name: set, Counters: map[string]resourceapi.Counter{"parts": {Value: *resource.NewQuantity(int64(has), resource.DecimalSI)}}})
			for size := has; size > 0; size /= 2 {
				for i := range has / size {
					devices.Spec.Devices = append(devices.Spec.Devices, resourceapi.Device{
						Name:       fmt.Sprint(set, "-", size, "-", i),
						Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"parts": {IntValue: ptr.To(int64(size))}},
						ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: map[string]resourceapi.Counter{
							"parts": {Value: *resource.NewQuantity(int64(size), resource.DecimalSI)},
						}}},
					})
				}
			}
		}
		c.Nodes, c.Slices = append(c.Nodes, node), append(c.Slices, sets, devices)
	}
	for _, pod := range p.pods {
		if name := pod.template(); !slices.ContainsFunc(c.Templates, func(t *resourceapi.ResourceClaimTemplate) bool { return t.Name == name }) {
			c.Templates = append(c.Templates, pod.claim())
		}
	}
	return c
}

func (p *partPod) template() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint("parts", p.wants), " ", "-"), "]")
}

func (p *partPod) claim() *resourceapi.ResourceClaimTemplate {
	t := &resourceapi.ResourceClaimTemplate{}
	t.Namespace, t.Name = "default", p.template()
	request := resourceapi.DeviceRequest{Name: "part"}
	for _, want := range p.wants {
		request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: fmt.Sprint("of-", want), DeviceClassName: "part", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf(`device.attributes["gpu.example.com"].parts == %d`, want)}}},
		})
	}
	t.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{request}
	return t
}

func (p *partPod) object(name string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", name
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "part", ResourceClaimTemplateName: ptr.To(p.template())}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(p.cpu), resource.DecimalSI)}}}}
	if p.zone >= 0 {
		pod.Spec.NodeSelector = map[string]string{"zone": fmt.Sprint(p.zone)}
	}
	return pod
}

// demands are the pods in order, equal ones that follow each other together.
func (p *parts) demands(t *testing.T, state *simulate.State) []simulate.Demand {
	t.Helper()
	var demands []simulate.Demand
	for i := 0; i < len(p.pods); {
		var pods []*corev1.Pod
		for first := i; i < len(p.pods) && reflect.DeepEqual(p.pods[i], p.pods[first]); i++ {
			pods = append(pods, p.pods[i].object(fmt.Sprint("pod-", i)))
		}
		demands = append(demands, simulate.Demand{Shape: shapeOf(t, state, pods), Count: len(pods)})
	}
	return demands
}

func drawParts(r *rand.Rand) *parts {
	p := &parts{}
	for range 1 + r.IntN(2) {
		var gpus []int
		for range 1 + r.IntN(2) {
			gpus = append(gpus, []int{2, 4}[r.IntN(2)])
		}
		p.gpus, p.cpu, p.zone = append(p.gpus, gpus), append(p.cpu, 2+r.IntN(5)), append(p.zone, len(p.zone))
	}
	lists := [][]int{{2}, {1}, {4, 2}, {4, 2, 1}, {2, 1}, {4, 1}}
	for range 1 + r.IntN(2) {
		kind := partPod{wants: lists[r.IntN(len(lists))], cpu: 1 + r.IntN(2), zone: max(-1, r.IntN(5)-3)}
		for range 1 + r.IntN(4) {
			p.pods = append(p.pods, kind)
		}
	}
	return p
}

// A gang is placed if there is a way to place it. What its pods have is in use then, and can be given back.
func TestGangTogetherByEnumeration(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(600) {
		p := drawParts(rand.New(rand.NewPCG(seed, 7)))
		c := p.cluster()
		state, oneByOne := open(t, c, simulate.Options{}), open(t, c, simulate.Options{GangsOneByOne: true})
		sim := state.Sim()
		template, err := state.TemplateOf("node-0", nil)
		must(t, err)
		on := simulate.Real(nil)
		if onNew := seed%3 == 0; onNew { // as many nodes like the first
			on = simulate.New(template, len(p.gpus))
			for n := range p.gpus {
				p.gpus[n], p.cpu[n], p.zone[n] = slices.Clone(p.gpus[0]), p.cpu[0], p.zone[0]
			}
			seen["new nodes"]++
		}
		demands, fits := p.demands(t, state), p.together(0)
		r, err := sim.Gang(t.Context(), demands, nil, on, simulate.FirstFit)
		must(t, err)
		if r.All() != fits || r.Undecided > 0 || r.NoProof || r.Placed+r.Unfit != len(p.pods) {
			t.Fatalf("seed %d: %+v: all placed %t, by enumeration %t (%d undecided, no proof: %t)", seed, p, r.All(), fits, r.Undecided, r.NoProof)
		}
		if !fits {
			seen["refused"]++
			continue
		}
		before := oneByOne.Sim()
		if first, err := before.Gang(t.Context(), p.demands(t, oneByOne), nil, simulate.Real(nil), simulate.FirstFit); err != nil {
			t.Fatal(err)
		} else if !first.All() && seed%3 > 0 {
			seen["only together"]++
		}
		p.take(t, seed, &r)
		if seed%3 == 0 {
			continue // there may be as many new nodes again
		}
		again, err := sim.Gang(t.Context(), demands, nil, on, simulate.FirstFit)
		if must(t, err); again.All() != p.together(0) {
			t.Fatalf("seed %d: placed again: %t, by enumeration %t", seed, again.All(), !again.All())
		}
	}
	for _, kind := range []string{"refused", "only together", "new nodes"} {
		if seen[kind] < 20 {
			t.Errorf("%s: only %d gangs; seen %v", kind, seen[kind], seen)
		}
	}
}

// take takes what pods have from the GPUs and the CPU of their nodes. It fails if there is too little.
func (p *parts) take(t *testing.T, seed uint64, r *simulate.Result) {
	t.Helper()
	taken := make(map[string]bool)
	for placement := range r.Placements() {
		claims, err := placement.Claims(t.Context())
		if err != nil || len(claims) != 1 || len(claims[0].Status.Allocation.Devices.Results) != 1 {
			t.Fatalf("seed %d: %d claims, %v", seed, len(claims), err)
		}
		result, name := claims[0].Status.Allocation.Devices.Results[0], placement.Node.Name()
		var n, g, size int
		if _, err := fmt.Sscanf(strings.TrimPrefix(name, "node-0-new-"), "%d", &n); err != nil {
			_, err = fmt.Sscanf(name, "node-%d", &n)
			must(t, err)
		}
		_, err = fmt.Sscanf(result.Device, "gpu-%d-%d-", &g, &size)
		must(t, err)
		p.gpus[n][g] -= size
		p.cpu[n] -= int(placement.Pod.Spec.Containers[0].Resources.Requests.Cpu().Value())
		if id := name + "/" + result.Device; taken[id] || p.gpus[n][g] < 0 || p.cpu[n] < 0 || result.Pool != name {
			t.Fatalf("seed %d: pod %s on %s has device %s of pool %s, and there is too little for it", seed, placement.Pod.Name, name, result.Device, result.Pool)
		} else {
			taken[id] = true
		}
	}
}

// twoParts is a node with a GPU of two parts, and two pods that each want the whole or else a part.
func twoParts() *parts {
	return &parts{gpus: [][]int{{2}}, cpu: []int{8}, zone: []int{0}, pods: []partPod{{[]int{2, 1}, 1, -1}, {[]int{2, 1}, 1, -1}}}
}

// partGang places so many pods, each of which wants the whole or else a part.
func partGang(t *testing.T, c simulate.Cluster, o simulate.Options, on func(*simulate.State) simulate.Nodes, count int, edit func(*corev1.Pod)) (simulate.Result, *simulate.Sim) {
	t.Helper()
	state, kind := open(t, c, o), partPod{[]int{2, 1}, 1, -1}
	pods := []*corev1.Pod{kind.object("pod-0"), kind.object("pod-1")}
	for _, pod := range pods {
		edit(pod)
	}
	sim := state.Sim()
	r, err := sim.Gang(t.Context(), []simulate.Demand{{Shape: shapeOf(t, state, pods), Count: count}}, nil, on(state), simulate.FirstFit)
	must(t, err)
	return r, sim
}

// sharedPart is a node with one GPU that pods share, and claims for all of it or else a half.
func sharedPart() simulate.Cluster {
	c := twoParts().cluster()
	amount := func(n int64) map[resourceapi.QualifiedName]resource.Quantity {
		return map[resourceapi.QualifiedName]resource.Quantity{"memory": *resource.NewQuantity(n, resource.DecimalSI)}
	}
	for _, slice := range c.Slices {
		for i := range slice.Spec.Devices[:min(1, len(slice.Spec.Devices))] {
			slice.Spec.Devices = []resourceapi.Device{{
				Name: slice.Spec.Devices[i].Name, AllowMultipleAllocations: ptr.To(true),
				Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: amount(2)["memory"]}},
			}}
		}
	}
	for i := range c.Templates[0].Spec.Spec.Devices.Requests[0].FirstAvailable {
		r := &c.Templates[0].Spec.Spec.Devices.Requests[0].FirstAvailable[i]
		r.Selectors, r.Capacity = nil, &resourceapi.CapacityRequirements{Requests: amount(int64(2 - i))}
	}
	return c
}

func realNodes(*simulate.State) simulate.Nodes { return simulate.Real(nil) }

func asItIs(*corev1.Pod) {}

// A proven no is distinguished from an unknown answer.
func TestGangTogetherVerdicts(t *testing.T) {
	c := twoParts().cluster()
	undecided := func(state *simulate.State) simulate.Nodes {
		template, err := state.TemplateOf("node-0", nil)
		must(t, err)
		return simulate.New(anyOf(t, state, template), 1)
	}
	forAll := twoParts().cluster()
	for _, slice := range forAll.Slices {
		slice.Spec.NodeName, slice.Spec.AllNodes = nil, ptr.To(true)
	}
	ofTwo := forAll
	ofTwo.Nodes = append(slices.Clip(forAll.Nodes), nodeNamed("another"))
	matched, nothing := twoParts().cluster(), twoParts().cluster()
	matched.Templates[0].Spec.Annotations = map[string]string{"dray-project.github.io/extension": `{"matchAcross": ["gpu.example.com/parts"]}`}
	nothing.Nodes[0].Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1050")
	nothing.Templates[0].Spec.Spec.Devices.Requests = nil
	shares := sharedPart()
	for _, test := range []struct {
		name                     string
		cluster                  simulate.Cluster
		options                  simulate.Options
		on                       func(*simulate.State) simulate.Nodes
		count                    int
		placed, unfit, undecided int
		noProof                  bool
	}{
		{"two", c, simulate.Options{}, realNodes, 2, 2, 0, 0, false},
		{"one by one", c, simulate.Options{GangsOneByOne: true}, realNodes, 2, 0, 2, 0, false},
		{"three", c, simulate.Options{}, realNodes, 3, 0, 3, 0, false},
		{"none", c, simulate.Options{}, realNodes, -1, 0, 0, 0, false},
		{"more than are asked about", c, simulate.Options{}, realNodes, 5000, 0, 5000, 0, false},
		{"without steps", c, simulate.Options{Budget: 1}, realNodes, 2, 0, 0, 2, false},
		{"on undecided nodes", c, simulate.Options{}, undecided, 2, 0, 0, 2, false},
		{"more that need no devices than are asked about", nothing, simulate.Options{}, realNodes, 1100, 0, 0, 1100, false},
		{"claims that match others of the pod", matched, simulate.Options{Extensions: true}, realNodes, 2, 0, 2, 0, true},
		{"one node reaches the devices for all", forAll, simulate.Options{}, realNodes, 2, 2, 0, 0, false},
		{"two nodes reach the devices for all", ofTwo, simulate.Options{}, realNodes, 2, 2, 0, 0, false},
		{"shares of one device", shares, simulate.Options{}, realNodes, 2, 2, 0, 0, false},
		{"three of two nodes", ofTwo, simulate.Options{}, realNodes, 3, 0, 3, 0, true},
	} {
		r, sim := partGang(t, test.cluster, test.options, test.on, test.count, asItIs)
		if r.Placed != test.placed || r.Unfit != test.unfit || r.Undecided != test.undecided || r.NoProof != test.noProof {
			t.Errorf("%s: %d placed, %d unfit, %d undecided, no proof: %t", test.name, r.Placed, r.Unfit, r.Undecided, r.NoProof)
		}
		if again, err := sim.Gang(t.Context(), twoParts().demands(t, sim.State()), nil, test.on(sim.State()), simulate.FirstFit); err != nil || test.placed > 0 && (again.All() || again.Undecided > 0) {
			t.Errorf("%s: placed again: %t, undecided: %d, %v", test.name, again.All(), again.Undecided, err)
		}
	}
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no longer wanted"))
	state := open(t, c, simulate.Options{})
	if _, err := state.Sim().Gang(cancelled, twoParts().demands(t, state), nil, simulate.Real(nil), simulate.FirstFit); err == nil || err.Error() != "no longer wanted" {
		t.Errorf("cancelled: %v", err)
	}
}

// Pods that were placed together have what they have as others do: a claim in common once, and a node can be drained of them.
func TestGangTogetherInCommon(t *testing.T) {
	c := (&parts{gpus: [][]int{{2, 2}}, cpu: []int{8}, zone: []int{0}, pods: append(twoParts().pods, partPod{[]int{1, 1}, 1, -1})}).cluster()
	common := &resourceapi.ResourceClaim{Spec: c.Templates[1].Spec.Spec}
	common.Namespace, common.Name = "default", "common"
	c.Claims = append(c.Claims, common)
	r, sim := partGang(t, c, simulate.Options{}, realNodes, 3, func(pod *corev1.Pod) {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "common", ResourceClaimName: &common.Name})
	})
	if !r.All() {
		t.Fatalf("placed %d", r.Placed)
	}
	if devices := strings.Join(devicesOf(t, &r), " "); strings.Count(devices, "/gpu-") != 4 {
		t.Errorf("the pods have %s, want a part each, and one in common", devices)
	}
	if inUse := sim.State().InUse(slices.Collect(r.Placements())[0].Node); inUse != 4./6 {
		t.Errorf("%v of the devices are in use, want 4 of 6", inUse)
	}
	if drained, err := sim.Drain(t.Context(), simulate.Real(nil), simulate.FirstFit, "node-0"); err != nil || drained.Placed != 0 || drained.Unfit != 3 {
		t.Errorf("drain: placed %d, unfit %d, %v", drained.Placed, drained.Unfit, err)
	}
}

// Pods that are asked about together keep what their claims ask for beyond the API.
func TestTogetherWithExtensions(t *testing.T) {
	c := gpuCluster("a")
	c.Slices[0].Spec.Devices = c.Slices[0].Spec.Devices[:3]
	for i, board := range []string{"x", "x", "y"} {
		c.Slices[0].Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"board": {StringValue: &board}}
	}
	for _, template := range c.Templates {
		if template.Name == "two" {
			template.Spec.Annotations = map[string]string{"dray-project.github.io/extension": `{"maxDistinct": [{"attribute": "gpu.example.com/board", "most": 1}]}`}
		}
	}
	state := open(t, c, simulate.Options{Extensions: true})
	// The pod with one GPU would take a GPU of the only board with two.
	demands := []simulate.Demand{{Shape: shapeOf(t, state, gpuPods("one", 1)), Count: 1}, {Shape: shapeOf(t, state, gpuPods("two", 1)), Count: 1}}
	result, err := state.Sim().Gang(t.Context(), demands, nil, simulate.Real(nil), simulate.FirstFit)
	if err != nil || !result.All() {
		t.Fatalf("%d placed, %v, %v", result.Placed, result.Err, err)
	}
	for placement := range result.Placements() {
		claims, err := placement.Claims(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, held := range claims[0].Status.Allocation.Devices.Results {
			got = append(got, held.Device)
		}
		want := map[string]string{"one-0": "[gpu-2]", "two-0": "[gpu-0 gpu-1]"}[placement.Pod.Name]
		if fmt.Sprint(got) != want {
			t.Errorf("%s has %v, want %s", placement.Pod.Name, got, want)
		}
	}
}
