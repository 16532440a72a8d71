// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/alloctest"
	"github.com/dray-project/dray/internal/dev/peer"
	"github.com/dray-project/dray/simulate"
)

const fabric = "gpu.example.com/fabric"

// fabrics are attributes of a device, and the fabrics that it is in.
func fabrics(random *rand.Rand) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	var a resourceapi.DeviceAttribute
	switch random.IntN(6) {
	case 0:
		return nil
	case 1:
		a.StringValues = [][]string{{"a", "b"}, {"b", "c"}, {"c"}}[random.IntN(3)]
	case 2:
		a.IntValue = ptr.To(int64(random.IntN(2)))
	default:
		a.StringValue = ptr.To(string("abc"[random.IntN(3)]))
	}
	name := resourceapi.QualifiedName(fabric)
	if random.IntN(2) == 0 {
		name = "fabric"
	}
	return map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{name: a}
}

func fabricsOf(d *resourceapi.Device) []string {
	a, found := d.Attributes[fabric]
	if !found {
		a = d.Attributes["fabric"]
	}
	if a.StringValue != nil {
		return []string{*a.StringValue}
	}
	if a.IntValue != nil {
		return []string{fmt.Sprint(*a.IntValue)}
	}
	return a.StringValues
}

// gangWorld is a small cluster, in the words of a reference.
type gangWorld struct {
	*reference
	cluster simulate.Cluster
	policy  allocator.Remembered
	shapes  []*corev1.Pod
	sizes   []int // GPUs of a pod of the shape
}

func newGangWorld(random *rand.Rand, policy allocator.Remembered) *gangWorld {
	var names []string
	for i := range 1 + random.IntN(4) {
		names = append(names, fmt.Sprint("node-", i))
	}
	w := &gangWorld{cluster: gpuCluster(names...), policy: policy}
	for i, node := range w.cluster.Nodes {
		if random.IntN(5) > 0 {
			node.Labels = map[string]string{"rack": fmt.Sprint(random.IntN(2))}
		}
		for d := range w.cluster.Slices[i].Spec.Devices {
			w.cluster.Slices[i].Spec.Devices[d].Attributes = fabrics(random)
		}
		nics := gpuSlice(node.Name, 2)
		nics.Name, nics.Spec.Driver, nics.Spec.Pool.Name = "nics-"+node.Name, "nic.example.com", "nics-"+node.Name
		w.cluster.Slices = append(w.cluster.Slices, nics)
	}
	w.cluster.Classes = append(w.cluster.Classes, nicClass())
	withNIC := gpuTemplate("with-nic", 1)
	withNIC.Spec.Spec.Devices.Requests = append(withNIC.Spec.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: "nic", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "nic", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
	}})
	w.cluster.Templates = append(w.cluster.Templates[:2], withNIC)
	w.shapes = []*corev1.Pod{gpuPods("one", 1)[0], gpuPods("two", 1)[0], gpuPods("with-nic", 1)[0]}
	w.sizes = []int{1, 2, 1}
	w.reference = &reference{
		allocate: peer.DrayWith(allocator.Options{Policy: policy}), nodes: w.cluster.Nodes, slices: w.cluster.Slices, claims: make(map[string]*resourceapi.ResourceClaim),
		base: &alloctest.Case{Features: allocator.AllFeatures(), Classes: w.cluster.Classes},
	}
	return w
}

func nicClass() *resourceapi.DeviceClass {
	class := &resourceapi.DeviceClass{}
	class.Name = "nic"
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "nic.example.com"`}}}
	return class
}

// in is the world without the nodes and devices that are not in a domain.
func (w *gangWorld) in(t []simulate.Topology, values []string) *reference {
	r := w.clone()
	for i, topology := range t {
		if topology.NodeLabel != "" {
			r.nodes = slices.DeleteFunc(r.nodes, func(n *corev1.Node) bool { return n.Labels["rack"] != values[i] })
			continue
		}
		for k, slice := range r.slices {
			if slice.Spec.Driver == "nic.example.com" && len(topology.Requests) > 0 {
				continue
			}
			slice = slice.DeepCopy()
			slice.Spec.Devices = slices.DeleteFunc(slice.Spec.Devices, func(d resourceapi.Device) bool { return !slices.Contains(fabricsOf(&d), values[i]) })
			r.slices[k] = slice
		}
		r.nodes = slices.DeleteFunc(r.nodes, func(n *corev1.Node) bool {
			return !slices.ContainsFunc(r.slices, func(s *resourceapi.ResourceSlice) bool { return *s.Spec.NodeName == n.Name && len(s.Spec.Devices) > 0 })
		})
	}
	return r
}

// permitted reports whether a topology permits a value. Letters are strings, digits are numbers.
func permitted(t *simulate.Topology, value string) bool {
	if t.Values == nil {
		return true
	}
	if t.DeviceAttribute != "" && value >= "a" {
		value = strconv.Quote(value)
	}
	return slices.Contains(t.Values, value)
}

// valuesIn lists what nodes have, in the order of nodes and devices.
func (w *gangWorld) valuesIn(t []simulate.Topology) [][]string {
	var all [][]string
	for _, node := range w.nodes {
		lists := [][]string{nil}
		for _, topology := range t {
			var values []string
			if topology.NodeLabel != "" {
				if rack, found := node.Labels["rack"]; found && permitted(&topology, rack) {
					values = []string{rack}
				}
			} else {
				for _, slice := range w.slices {
					for d := range slice.Spec.Devices {
						for _, value := range fabricsOf(&slice.Spec.Devices[d]) {
							if *slice.Spec.NodeName == node.Name && permitted(&topology, value) {
								values = append(values, value)
							}
						}
					}
				}
			}
			var next [][]string
			for _, before := range lists {
				for _, value := range values {
					next = append(next, append(slices.Clip(before), value))
				}
			}
			lists = next
		}
		for _, values := range lists {
			if !slices.ContainsFunc(all, func(known []string) bool { return slices.Equal(known, values) }) {
				all = append(all, values)
			}
		}
	}
	return all
}

// The demands of a gang are in the order of its pods, as far as equal ones follow each other.
func TestDemands(t *testing.T) {
	state := open(t, gpuCluster("a"), simulate.Options{})
	pods := slices.Concat(gpuPods("one", 1), gpuPods("three", 2), gpuPods("two", 1), gpuPods("one", 1))
	demands, err := state.Demands(pods)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range demands {
		got = append(got, fmt.Sprintf("%d like %s", d.Count, *d.Shape.Pods[0].Spec.ResourceClaims[0].ResourceClaimTemplateName))
	}
	if want := []string{"2 like one", "2 like three", "1 like two"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := state.Demands([]*corev1.Pod{nil}); err == nil {
		t.Error("no error for a pod that is nil")
	}
}

// topologiesOf draws what a gang must have in common. Pods of the gang run already in some cases, and contradict each other in a few.
func topologiesOf(seed uint64, random *rand.Rand) (topologies []simulate.Topology) {
	if random.IntN(3) == 0 {
		topologies = append(topologies, simulate.Topology{NodeLabel: "rack", Preferred: random.IntN(2) == 0})
	}
	if random.IntN(6) > 0 {
		topologies = append(topologies, simulate.Topology{DeviceAttribute: fabric, Preferred: random.IntN(3) == 0, Requests: [][]string{nil, {"gpus"}}[random.IntN(2)]})
	}
	for i := range topologies {
		switch {
		case seed%20 == 0:
			topologies[i].Values = []string{}
		case seed%4 == 1:
			topologies[i].Values = []string{`"b"`, "1"}
		}
	}
	return topologies
}

// Gangs are placed where placing them pod by pod in each domain, of which other devices are taken away,
// finds the first place. For equal pods, counting devices says whether there is a place at all. Only where pod by pod
// not all topologies can be kept, placing them together may change the answer.
func TestGangByBruteForce(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 42))
		w := newGangWorld(random, []allocator.Remembered{allocator.FirstFit{}, byAttribute(fabric)}[seed%2])
		state := open(t, w.cluster, simulate.Options{DevicePolicy: w.policy, GangsOneByOne: true})
		var demands []simulate.Demand
		var pods []*corev1.Pod
		kinds := random.Perm(3)[:1+random.IntN(2)]
		for _, kind := range kinds {
			d := simulate.Demand{Count: 1 + random.IntN(4)}
			var equal []*corev1.Pod
			for range d.Count {
				pod := w.shapes[kind].DeepCopy()
				pod.Name = fmt.Sprint("pod-", len(pods))
				pods, equal = append(pods, pod), append(equal, pod)
			}
			d.Shape = shapeOf(t, state, equal)
			demands = append(demands, d)
		}
		topologies := topologiesOf(seed, random)
		got, err := state.Sim().Gang(t.Context(), demands, topologies, simulate.Real(nil), simulate.FirstFit)
		if err != nil {
			t.Fatal(err)
		}
		want, given := w.gang(t, topologies, pods)
		if w.together(t, seed, demands, topologies, &got, want != nil && given == len(topologies)) {
			seen["together"]++
		}
		if got.All() != (want != nil) || got.Undecided > 0 {
			t.Fatalf("seed %d: placed %t, pod by pod it is %v", seed, got.All(), want)
		}
		if len(kinds) == 1 && kinds[0] < 2 {
			if counted := w.count(topologies, w.sizes[kinds[0]], len(pods)); counted != got.All() {
				t.Fatalf("seed %d: placed %t, by counting %t", seed, got.All(), counted)
			}
			seen["counted"]++
		}
		if want == nil {
			seen["refused"]++
			if refusals, err := got.Why(t.Context()); err != nil || len(refusals) == 0 {
				t.Fatalf("seed %d: not explained, %v", seed, err)
			}
			continue
		}
		for i, p := range slices.Collect(got.Placements()) {
			claims, err := p.Claims(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if p.Node.Name() != want[i].node || p.Pod != pods[i] {
				t.Fatalf("seed %d: %s is on %s, pod by pod it is on %s", seed, p.Pod.Name, p.Node.Name(), want[i].node)
			}
			if sameResults(t, fmt.Sprintf("seed %d: %s", seed, p.Pod.Name), []resourceapi.AllocationResult{*claims[0].Status.Allocation}, []resourceapi.AllocationResult{*want[i].claim.Status.Allocation}); len(claims[0].Spec.Devices.Requests[0].Exactly.Selectors) > 0 {
				t.Fatalf("seed %d: the claim has selectors that nobody wrote", seed)
			}
		}
		seen["placed"]++
		seen[fmt.Sprint("with ", given, " of ", len(topologies))]++
	}
	for _, kind := range []string{"placed", "refused", "counted", "with 0 of 1", "with 1 of 1", "with 2 of 2", "together"} {
		if seen[kind] == 0 {
			t.Errorf("no gang was %s; seen: %v", kind, seen)
		}
	}
}

// together places a gang, together where it has to be, and reports whether the places are others than one by one. With all topologies
// kept, they are the same.
func (w *gangWorld) together(t *testing.T, seed uint64, demands []simulate.Demand, topologies []simulate.Topology, oneByOne *simulate.Result, kept bool) bool {
	t.Helper()
	r, err := open(t, w.cluster, simulate.Options{DevicePolicy: w.policy}).Sim().Gang(t.Context(), demands, topologies, simulate.Real(nil), simulate.FirstFit)
	if err != nil || r.Undecided > 0 || oneByOne.All() && !r.All() {
		t.Fatalf("seed %d: together %d are undecided, and %d unfit, %v", seed, r.Undecided, r.Unfit, err)
	}
	diff := cmp.Diff(devicesOf(t, oneByOne), devicesOf(t, &r))
	if kept && diff != "" {
		t.Fatalf("seed %d: one by one is not what together makes of it (-one by one +together):\n%s", seed, diff)
	}
	w.check(t, seed, &r)
	return r.All() && diff != ""
}

// devicesOf lists nodes and devices of the pods of a result.
func devicesOf(t *testing.T, r *simulate.Result) []string {
	t.Helper()
	var list []string
	for p := range r.Placements() {
		claims, err := p.Claims(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text := p.Pod.Name + " on " + p.Node.Name() + ":"
		for _, claim := range claims {
			for _, result := range claim.Status.Allocation.Devices.Results {
				text += fmt.Sprint(" ", result.Request, "=", result.Pool, "/", result.Device)
			}
		}
		list = append(list, text)
	}
	return list
}

// check fails if a device is there twice, or not on the node of its pod.
func (w *gangWorld) check(t *testing.T, seed uint64, r *simulate.Result) {
	t.Helper()
	taken := make(map[string]bool)
	for p := range r.Placements() {
		claims, err := p.Claims(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, claim := range claims {
			for _, result := range claim.Status.Allocation.Devices.Results {
				if id := result.Pool + "/" + result.Device; taken[id] || strings.TrimPrefix(result.Pool, "nics-") != p.Node.Name() {
					t.Fatalf("seed %d: pod %s on %s has %s, taken before: %t", seed, p.Pod.Name, p.Node.Name(), id, taken[id])
				} else {
					taken[id] = true
				}
			}
		}
	}
}

// gangPlace is where a pod of a gang is, and the claim made for it.
type gangPlace struct {
	node  string
	claim *resourceapi.ResourceClaim
}

// gang places pod by pod, in the first domain that does. It also says how many topologies held.
func (w *gangWorld) gang(t *testing.T, topologies []simulate.Topology, pods []*corev1.Pod) (places []gangPlace, held int) {
	templates := make(map[string]*resourceapi.ResourceClaimTemplate)
	for _, template := range w.cluster.Templates {
		templates[template.Name] = template
	}
	for held = len(topologies); ; held-- {
		for _, values := range w.valuesIn(topologies[:held]) {
			r := w.in(topologies[:held], values)
			places = nil
			for _, pod := range pods {
				node, _, doubt, err := r.place(t.Context(), pod, r.claimsOf(pod, templates), nil)
				if err != nil || doubt {
					t.Fatalf("doubt %t, %v", doubt, err)
				}
				if node == "" {
					break
				}
				places = append(places, gangPlace{node, r.claims[r.pods[len(r.pods)-1].claims[0]]})
			}
			if len(places) == len(pods) {
				return places, held
			}
		}
		if held == 0 || !topologies[held-1].Preferred {
			return nil, held
		}
	}
}

// count says by numbers of devices whether equal pods have a place.
func (w *gangWorld) count(topologies []simulate.Topology, size, pods int) bool {
	for held := len(topologies); ; held-- {
		for _, values := range w.valuesIn(topologies[:held]) {
			r := w.in(topologies[:held], values)
			room := 0
			for _, slice := range r.slices {
				if slice.Spec.Driver == "gpu.example.com" && slices.ContainsFunc(r.nodes, func(n *corev1.Node) bool { return n.Name == *slice.Spec.NodeName }) {
					room += len(slice.Spec.Devices) / size
				}
			}
			if room >= pods {
				return true
			}
		}
		if held == 0 || !topologies[held-1].Preferred {
			return false
		}
	}
}

// A claim that the pods share and that is allocated already decides the domain.
func TestGangWithAllocatedClaim(t *testing.T) {
	for name, values := range map[string][2]resourceapi.DeviceAttribute{
		"texts":    {{StringValue: ptr.To("x")}, {StringValue: ptr.To("y")}},
		"versions": {{VersionValue: ptr.To("1.0.0")}, {VersionValue: ptr.To("1.0.1")}},
		"numbers":  {{IntValue: ptr.To(int64(1))}, {IntValue: ptr.To(int64(-1))}},
		"truths":   {{BoolValue: ptr.To(true)}, {BoolValue: ptr.To(false)}},
	} {
		t.Run(name, func(t *testing.T) { gangWithAllocatedClaim(t, values) })
	}
}

// A device of an allocated claim that a request got which the topology does not name decides nothing.
func TestGangWithAllocatedClaimOfAnotherRequest(t *testing.T) {
	c := gpuCluster("a")
	for d := range c.Slices[0].Spec.Devices {
		c.Slices[0].Spec.Devices[d].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"fabric": {IntValue: ptr.To(int64(d / 2))}}
	}
	claim := &resourceapi.ResourceClaim{Spec: *c.Templates[0].Spec.Spec.DeepCopy()}
	claim.Namespace, claim.Name = "default", "shared"
	claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, claim.Spec.Devices.Requests[0])
	claim.Spec.Devices.Requests[1].Name = "others"
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "gpus", Driver: "gpu.example.com", Pool: "a", Device: "gpu-3"}, {Request: "others", Driver: "gpu.example.com", Pool: "a", Device: "gpu-0"},
	}}}
	c.Claims = append(c.Claims, claim)
	state := open(t, c, simulate.Options{})
	pods := gpuPods("one", 2)
	pods[0].Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim.Name}}
	demands, err := state.Demands(pods)
	if err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]bool{"": false, "gpus": true} {
		topology := simulate.Topology{DeviceAttribute: fabric}
		if request != "" {
			topology.Requests = []string{request}
		}
		r, err := state.Sim().Gang(t.Context(), demands, []simulate.Topology{topology}, simulate.Real(nil), simulate.FirstFit)
		if err != nil || r.All() != want {
			t.Errorf("requests %v: placed %d, %v; want all: %t", topology.Requests, r.Placed, err, want)
		}
	}
}

func gangWithAllocatedClaim(t *testing.T, values [2]resourceapi.DeviceAttribute) {
	c := gpuCluster("a", "b")
	for i, slice := range c.Slices {
		for d := range slice.Spec.Devices {
			slice.Spec.Devices[d].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"fabric": values[(d/2+i)%2]}
		}
	}
	claim := &resourceapi.ResourceClaim{Spec: c.Templates[0].Spec.Spec}
	claim.Namespace, claim.Name = "default", "shared"
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "gpus", Driver: "gpu.example.com", Pool: "a", Device: "gpu-3"}, // of the second value
	}}}
	c.Claims = append(c.Claims, claim)
	state := open(t, c, simulate.Options{})
	pods := gpuPods("one", 3)
	pods[0].Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim.Name}}
	gang := []simulate.Demand{{Shape: shapeOf(t, state, pods[1:]), Count: 2}, {Shape: shapeOf(t, state, pods[:1]), Count: 1}}
	for _, test := range []struct {
		requests []string
		want     []string
	}{{nil, []string{"gpu-2", "gpu-0"}}, {[]string{"gpus"}, []string{"gpu-2", "gpu-0"}}} {
		sim := state.Sim()
		r, err := sim.Gang(t.Context(), gang, []simulate.Topology{{DeviceAttribute: fabric, Requests: test.requests}}, simulate.Real(nil), simulate.FirstFit)
		if err != nil || !r.All() {
			t.Fatalf("placed %d, %v", r.Placed, err)
		}
		var got []string
		for p := range r.Placements() {
			claims, err := p.Claims(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, claim := range claims {
				got = append(got, claim.Status.Allocation.Devices.Results[0].Device)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("requests %v: devices are %v, want %v", test.requests, got, test.want)
		}
		// A pod of the gang that has to leave its node is a pod like others.
		if r, err := sim.Drain(t.Context(), simulate.Real(nil), simulate.FirstFit, "b"); err != nil || !r.All() {
			t.Errorf("drain: placed %d, %v", r.Placed, err)
		}
	}
}

// A topology that says nothing, or too much, is an error that says so.
func TestGangWrongInput(t *testing.T) {
	state := open(t, gpuCluster("a"), simulate.Options{})
	demands := []simulate.Demand{{Shape: shapeOf(t, state, gpuPods("one", 1)), Count: 1}}
	for _, test := range []struct {
		topology simulate.Topology
		text     string
	}{
		{simulate.Topology{}, "either a node label or a device attribute"},
		{simulate.Topology{NodeLabel: "rack", DeviceAttribute: fabric}, "either a node label or a device attribute"},
		{simulate.Topology{DeviceAttribute: "fabric"}, `device attribute "fabric": want domain/name`},
		{simulate.Topology{NodeLabel: "rack", Requests: []string{"gpus"}}, "requests go with a device attribute"},
		{simulate.Topology{DeviceAttribute: fabric, Requests: []string{"nics"}}, `no pod of the gang has a request "nics"`},
	} {
		if _, err := state.Sim().Gang(t.Context(), demands, []simulate.Topology{test.topology}, simulate.Real(nil), simulate.FirstFit); err == nil || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%+v: %v, want %s", test.topology, err, test.text)
		}
	}
}

// A launcher without devices goes wherever the labels of the domain allow: it has nothing that could have the value.
func TestGangMemberWithoutDevices(t *testing.T) {
	c := gpuCluster("a", "b", "other rack")
	c.Slices = c.Slices[:1] // b and the other have no devices
	for d := range c.Slices[0].Spec.Devices {
		c.Slices[0].Spec.Devices[d].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"fabric": {StringValue: ptr.To("x")}}
	}
	for i, rack := range []string{"1", "1", "2"} {
		c.Nodes[i].Labels = map[string]string{"rack": rack}
		c.Nodes[i].Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(1, resource.DecimalSI)}
	}
	state := open(t, c, simulate.Options{})
	launcher := gpuPods("one", 1)[0]
	launcher.Name, launcher.Spec.ResourceClaims = "launcher", nil
	workers, launchers := shapeOf(t, state, gpuPods("one", 1)), shapeOf(t, state, []*corev1.Pod{launcher})
	inFabric, inRack := simulate.Topology{DeviceAttribute: fabric}, simulate.Topology{NodeLabel: "rack"}
	for _, test := range []struct {
		launchers  int
		topologies []simulate.Topology
		want       []string // nil if there is no place
	}{
		{1, []simulate.Topology{inFabric}, []string{"a", "b"}},
		{2, []simulate.Topology{inFabric}, []string{"a", "b", "other rack"}},
		{1, []simulate.Topology{inFabric, inRack}, []string{"a", "b"}},
		{2, []simulate.Topology{inFabric, inRack}, nil},
	} {
		gang := []simulate.Demand{{Shape: workers, Count: 1}, {Shape: launchers, Count: test.launchers}}
		r, err := state.Sim().Gang(t.Context(), gang, test.topologies, simulate.Real(nil), simulate.FirstFit)
		if err != nil {
			t.Fatal(err)
		}
		if got := nodesOf(slices.Collect(r.Placements())); r.All() && !slices.Equal(got, test.want) || r.All() != (test.want != nil) {
			t.Errorf("%d launchers, %v: on %v (all: %t), want %v", test.launchers, test.topologies, got, r.All(), test.want)
		}
	}
}

// If one pod fits on no node, a gang of it is proven not to fit. No search for pods together is needed.
func TestGangOfOneIsProven(t *testing.T) {
	cluster := gpuCluster("a", "b")
	for _, template := range cluster.Templates { // pods whose claims match others of the pod are placed one by one only
		template.Spec.Annotations = map[string]string{"dray-project.github.io/extension": `{"matchAcross": ["gpu.example.com/uuid"]}`}
	}
	for i := range cluster.Slices {
		cluster.Slices[i] = gpuSlice(cluster.Nodes[i].Name, 2)
	}
	state := open(t, cluster, simulate.Options{Extensions: true})
	for _, pods := range []int{1, 2} {
		shapes, err := state.Shapes(gpuPods("three", pods))
		must(t, err)
		r, err := state.Sim().Gang(t.Context(), []simulate.Demand{{Shape: shapes[0], Count: pods}}, nil, simulate.Real(nil), simulate.FirstFit)
		must(t, err)
		if r.Unfit != pods || r.NoProof != (pods > 1) {
			t.Errorf("%d pods: %d do not fit, no proof %t", pods, r.Unfit, r.NoProof)
		}
	}
}
