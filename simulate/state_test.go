// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/onenode"
)

// crowd is a cluster of small nodes that differ, with pods on them.
type crowd struct {
	*testing.T
	rand    *rand.Rand
	cluster Cluster
	pods    int
}

// crowdKinds are the kinds of pods of a crowd: the name of their claim template, or of a claim. The first
// five stand for themselves.
var crowdKinds = []string{"one", "two", "large", "broken", "cpu", "none", "network", "shared", "named", "named"}

// crowdClaims is how many claims there are that pods name. Most are used by one pod, some by two.
const crowdClaims = 16

func newCrowd(t *testing.T, seed uint64) *crowd {
	c := &crowd{T: t, rand: rand.New(rand.NewPCG(seed, 47))}
	class := &resourceapi.DeviceClass{}
	class.Name = "gpu"
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}}
	network := class.DeepCopy()
	network.Name = "network"
	network.Spec.Selectors[0].CEL.Expression = `device.driver == "network.example.com"`
	c.cluster.Classes = []*resourceapi.DeviceClass{class, network}
	for i := range 4 + c.rand.IntN(8) {
		c.addNode(fmt.Sprint("node-", i))
	}
	c.addSlice("network", nil, 3, false)
	for _, kind := range []struct {
		name, class, selector string
		count                 int64
	}{
		{"one", "gpu", "", 1},
		{"two", "gpu", "", 2},
		{"large", "gpu", `device.attributes["gpu.example.com"].size == 2`, 1},
		{"broken", "gpu", `device.attributes["gpu.example.com"].flaw == 1`, 1}, // an error where there is no such attribute
		{"network", "network", "", 1},
		{"tolerant", "gpu", "", 1},
		{"all", "gpu", `device.attributes["gpu.example.com"].size == 2`, 0},
		{"admin", "gpu", `device.attributes["gpu.example.com"].size == 2`, 1},
	} {
		template := &resourceapi.ResourceClaimTemplate{}
		template.Namespace, template.Name = "default", kind.name
		exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: kind.class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: kind.count}
		switch kind.name {
		case "tolerant":
			exactly.Tolerations = []resourceapi.DeviceToleration{{Key: "soft", Operator: resourceapi.DeviceTolerationOpExists}}
		case "all":
			exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
		case "admin":
			exactly.AdminAccess = ptr.To(true)
		}
		if kind.selector != "" {
			exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: kind.selector}}}
		}
		template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: exactly}}
		c.cluster.Templates = append(c.cluster.Templates, template)
	}
	shared := &resourceapi.ResourceClaim{Spec: c.cluster.Templates[0].Spec.Spec}
	shared.Namespace, shared.Name = "default", "shared"
	c.cluster.Claims = append(c.cluster.Claims, shared)
	for i := range crowdClaims {
		named := &resourceapi.ResourceClaim{Spec: c.cluster.Templates[[]int{0, 1, 2, 4}[i%4]].Spec.Spec}
		named.Namespace, named.Name = "default", fmt.Sprint("named-", i)
		c.cluster.Claims = append(c.cluster.Claims, named)
	}
	c.fill()
	return c
}

func (c *crowd) addNode(name string) {
	node := &corev1.Node{}
	node.Name = name
	if c.rand.IntN(3) > 0 {
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(2+c.rand.IntN(6)), resource.DecimalSI)}
	}
	c.cluster.Nodes = append(c.cluster.Nodes, node)
	c.addSlice(name, &name, c.rand.IntN(6), c.rand.IntN(6) == 0)
}

func (c *crowd) addSlice(pool string, node *string, devices int, flaw bool) {
	slice := &resourceapi.ResourceSlice{}
	slice.Name = pool
	slice.Spec = resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: node, Pool: resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1}}
	if node == nil {
		slice.Spec.Driver, slice.Spec.AllNodes = "network.example.com", ptr.To(true)
	}
	for i := range devices {
		d := resourceapi.Device{Name: fmt.Sprint("device-", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"size": {IntValue: ptr.To(int64(1 + c.rand.IntN(2)))}, "flaw": {IntValue: ptr.To(int64(c.rand.IntN(2)))},
		}}
		if flaw {
			delete(d.Attributes, "flaw")
		}
		slice.Spec.Devices = append(slice.Spec.Devices, d)
	}
	c.cluster.Slices = append(c.cluster.Slices, slice)
}

// partition has the devices of some nodes draw on a counter that is enough for half of them. On some, a selector fails on
// the last device only.
func (c *crowd) partition() {
	for _, slice := range slices.Clone(c.cluster.Slices) {
		if slice.Spec.NodeName == nil || len(slice.Spec.Devices) < 2 {
			continue
		}
		if c.rand.IntN(2) == 0 {
			delete(slice.Spec.Devices[len(slice.Spec.Devices)-1].Attributes, "flaw")
		}
		if c.rand.IntN(3) > 0 {
			continue
		}
		slice.Spec.Pool.ResourceSliceCount = 2
		counters := &resourceapi.ResourceSlice{Spec: slice.Spec}
		counters.Name, counters.Spec.Devices = slice.Name+"-counters", nil
		counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "set", Counters: map[string]resourceapi.Counter{"n": {Value: *resource.NewQuantity(int64(len(slice.Spec.Devices)), resource.DecimalSI)}}}}
		for i := range slice.Spec.Devices {
			slice.Spec.Devices[i].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "set", Counters: map[string]resourceapi.Counter{"n": {Value: resource.MustParse("2")}}}}
		}
		c.cluster.Slices = append(c.cluster.Slices, counters)
	}
}

// pod makes a pod of a kind.
func (c *crowd) pod(kind string) *corev1.Pod {
	pod := &corev1.Pod{}
	c.pods++
	pod.Namespace, pod.Name = "default", fmt.Sprint("pod-", c.pods)
	pod.UID = types.UID(pod.Name)
	pod.Spec.Priority = ptr.To(int32(c.rand.IntN(2)))
	if kind == "cpu" || c.rand.IntN(4) == 0 {
		pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
	}
	switch kind {
	case "none", "cpu":
	case "shared":
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &kind}}
	case "named":
		name := fmt.Sprint("named-", c.rand.IntN(crowdClaims))
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &name}, {Name: "again", ResourceClaimName: &name}}
	default:
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: &kind}}
	}
	if c.rand.IntN(8) == 0 {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: ptr.To(true)}}
	}
	return pod
}

func (c *crowd) randomPod() *corev1.Pod { return c.pod(crowdKinds[c.rand.IntN(len(crowdKinds))]) }

// fill lets pods run, with claims as the API server has them.
func (c *crowd) fill() {
	sim := c.open().Sim()
	for range c.rand.IntN(2 * len(c.cluster.Nodes)) {
		pod := c.randomPod()
		result, err := sim.Place(c.Context(), pod, Real(nil), []NodePolicy{FirstFit, Spread}[c.rand.IntN(2)])
		if err != nil {
			c.Fatal(err)
		}
		for placement := range result.Placements() {
			pod.Spec.NodeName = placement.Node.Name()
			c.cluster.Pods = append(c.cluster.Pods, pod)
			claims, err := placement.Claims(c.Context())
			if err != nil {
				c.Fatal(err)
			}
			for _, claim := range claims {
				if at := slices.IndexFunc(c.cluster.Claims, func(known *resourceapi.ResourceClaim) bool { return known.Name == claim.Name }); at >= 0 {
					c.cluster.Claims[at] = claim
					continue
				}
				claim.Name, claim.UID = pod.Name+"-c", types.UID(pod.Name+"-c")
				claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
				pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: &claim.Name}}
				c.cluster.Claims = append(c.cluster.Claims, claim)
			}
		}
	}
}

func (c *crowd) open() *State {
	state, err := Open(c.cluster, Options{Features: allocator.AllFeatures()})
	if err != nil {
		c.Fatal(err)
	}
	if faults := state.Faults(); len(faults) > 0 {
		c.Fatal(faults[0])
	}
	return state
}

// change does something to a Sim.
func (c *crowd) change(sim *Sim) {
	switch c.rand.IntN(8) {
	case 0:
		sim.Fork()
	case 1:
		sim.Revert()
	case 2:
		sim.Commit()
	case 3:
		node := c.cluster.Nodes[c.rand.IntN(len(c.cluster.Nodes))].Name
		if _, err := sim.Drain(c.Context(), Real(nil), Pack, node); err != nil {
			return // it is gone already
		}
	case 4:
		slice := c.cluster.Slices[c.rand.IntN(len(c.cluster.Slices))]
		if n := len(slice.Spec.Devices); n > 0 {
			id := pools.DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: slice.Spec.Devices[c.rand.IntN(n)].Name}
			if err := sim.Taint(resourceapi.DeviceTaint{Key: "k", Effect: resourceapi.DeviceTaintEffectNoSchedule}, slices.Values([]pools.DeviceID{id})); err != nil {
				return // its node is gone
			}
		}
	default:
		if _, err := sim.Place(c.Context(), c.randomPod(), Real(nil), []NodePolicy{FirstFit, Spread, Pack}[c.rand.IntN(3)]); err != nil {
			c.Fatal(err)
		}
	}
}

func (c *crowd) shape(state *State, pod *corev1.Pod) *Shape {
	shapes, err := state.Shapes([]*corev1.Pod{pod})
	if err != nil {
		c.Fatal(err)
	}
	return shapes[0]
}

// A count of before with what changed since is what counting all nodes gives.
func TestCountsAreThoseOfAllNodes(t *testing.T) {
	RunUsual(t)
	seen := make(map[string]int)
	for seed := range uint64(60) {
		c := newCrowd(t, seed)
		state := c.open()
		sets := []Nodes{Real(nil), Real(func(node *corev1.Node) bool { return node.Name != "node-1" })}
		none := Real(func(*corev1.Node) bool { return false })
		sim := state.Sim()
		for range 40 {
			c.change(sim)
			now, shape, on := sim.State(), c.shape(state, c.pod(crowdKinds[c.rand.IntN(5)])), sets[c.rand.IntN(2)]
			got, err := now.FitsMany(t.Context(), shape, on)
			if err != nil {
				t.Fatal(err)
			}
			want, err := now.FitsMany(t.Context(), shape, Union(on, none)) // a set of two parts is counted anew
			if err != nil {
				t.Fatal(err)
			}
			if got.Pods != want.Pods || got.Undecided != want.Undecided || (got.Err == nil) != (want.Err == nil) {
				t.Fatalf("seed %d: of %s, %d fit, %d nodes undecided (%v); counting all nodes %d, %d (%v)", seed, shape.name(), got.Pods, got.Undecided, got.Err, want.Pods, want.Undecided, want.Err)
			}
			if want.Undecided > 0 {
				seen["undecided"]++
			}
			d := &now.withReadSet().data
			if known, ok := now.world.counted(d.readSet).byKind.Get(shape.kind); ok && want.Pods > 0 {
				for range d.real.Changes(&known.real) {
					seen["changed"]++
				}
			}
		}
	}
	if seen["undecided"] == 0 || seen["changed"] == 0 {
		t.Errorf("too little was seen: %v", seen)
	}
}

// A second count does not read nodes that did not change.
func TestCountReadsChangedNodesOnly(t *testing.T) {
	RunUsual(t)
	const nodes = 400
	cluster, pods := large(nodes, 1)
	state, err := Open(cluster, Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	shapes, err := state.Shapes(pods)
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	on := Real(func(*corev1.Node) bool { looked++; return true })
	count := func(s *State, want, most int) {
		t.Helper()
		looked = 0
		if fit, err := s.FitsMany(t.Context(), shapes[0], on); err != nil || fit.Pods != want {
			t.Fatalf("%d fit, want %d: %v", fit.Pods, want, err)
		}
		if looked > most {
			t.Errorf("looked at %d nodes, want at most %d", looked, most)
		}
	}
	count(state, 8*nodes, nodes)
	count(state, 8*nodes, 0)
	sim := state.Sim()
	if err := sim.Remove("node-007"); err != nil {
		t.Fatal(err)
	}
	count(sim.State(), 8*nodes-8, 1)
	for range 10 {
		if r, err := sim.PlaceMany(t.Context(), shapes[0], 1, on, FirstFit); err != nil || r.Placed != 1 {
			t.Fatal(r.Placed, err)
		}
	}
	count(sim.State(), 8*nodes-18, 6) // the one that is gone, and two with pods, before and after
	count(state, 8*nodes, 6)
}

// Taints of a what-if are like taints that are published, also on devices that are in use.
func TestTaintsAreLikePublishedOnes(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(80) {
		c := newCrowd(t, seed)
		c.partition()
		state := c.open()
		sim := state.Sim()
		var shapes []*Shape
		for _, kind := range []string{"one", "two", "large", "broken", "tolerant", "all", "admin"} {
			shapes = append(shapes, c.shape(state, c.pod(kind)))
			if _, err := state.FitsMany(t.Context(), shapes[len(shapes)-1], Real(nil)); err != nil { // without taints before
				t.Fatal(err)
			}
		}
		taints := make(map[pools.DeviceID][]resourceapi.DeviceTaint)
		for _, slice := range c.cluster.Slices {
			for i := range slice.Spec.Devices {
				if c.rand.IntN(4) == 0 {
					id := pools.DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: slice.Spec.Devices[i].Name}
					taint := resourceapi.DeviceTaint{Key: []string{"hard", "soft"}[c.rand.IntN(2)], Effect: resourceapi.DeviceTaintEffectNoSchedule}
					if c.rand.IntN(6) == 0 {
						taint.Effect = resourceapi.DeviceTaintEffectNone
					}
					taints[id] = append(taints[id], taint)
					if err := sim.Taint(taint, slices.Values([]pools.DeviceID{id})); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		got := sim.State()
		c.cluster.Slices = onenode.WithTaints(c.cluster.Slices, taints)
		want := c.open()
		for i := range got.data.real.Len() {
			rec, held := got.data.real.At(i), 0
			for _, added := range rec.facts.Added {
				if slices.ContainsFunc(rec.state.Uses, func(u onenode.PlacedUse) bool { return u.Device == added.Device && u.Wholes > 0 }) {
					held++
				}
			}
			switch {
			case held > 0 && held == len(rec.facts.Added):
				seen["none left"]++
			case held > 0:
				seen["some left"]++
			}
		}
		for _, shape := range shapes {
			if a, b := allPlaced(t, got, shape), allPlaced(t, want, shape); a != b {
				t.Fatalf("seed %d: of %s\n%sare placed with taints of a what-if,\n%swith those that are published", seed, shape.name(), a, b)
			}
			for i := range got.data.real.Len() {
				if len(got.data.real.At(i).facts.Added) > 0 {
					seen[taintsChange(t, state.withReadSet(), got.withReadSet(), i, shape)]++
				}
			}
		}
	}
	for _, what := range []string{"none left", "some left", "unfit before", "does not fit any more", "the same devices", "other devices"} {
		if seen[what] == 0 {
			t.Errorf("%q was not seen: %v", what, seen)
		}
	}
}

// taintsChange says what taints change for the next pod on a node.
func taintsChange(t *testing.T, before, after *State, node int, shape *Shape) string {
	about := func(s *State) *onenode.Answer {
		c, err := s.world.NewCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rec := s.data.real.At(node)
		a, err := s.world.About(&c, rec.facts.Inventory, rec.state, s.data.surroundings, shape.kind.plain)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	switch a, b := about(before), about(after); {
	case a.Fit != onenode.Fits:
		return "unfit before"
	case b.Fit != onenode.Fits:
		return "does not fit any more"
	case slices.EqualFunc(a.Own, b.Own, func(x, y onenode.Holding) bool { return x.Device == y.Device }):
		return "the same devices"
	}
	return "other devices"
}

// allPlaced tells how many pods fit, and where a few of them go.
func allPlaced(t *testing.T, s *State, shape *Shape) string {
	fit, err := s.FitsMany(t.Context(), shape, Real(nil))
	if err != nil {
		t.Fatal(err)
	}
	result, err := s.Sim().PlaceMany(t.Context(), shape, 5, Real(nil), FirstFit)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%d fit, %d nodes undecided; %d unfit, %d undecided\n", fit.Pods, fit.Undecided, result.Unfit, result.Undecided)
	for placement := range result.Placements() {
		claims, err := placement.Claims(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text += placement.Node.Name()
		for _, device := range claims[0].Status.Allocation.Devices.Results {
			text += " " + device.Device
		}
		text += "\n"
	}
	return text
}
