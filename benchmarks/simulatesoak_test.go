// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

const (
	simSoakNodes = 14
	// simSoakUpdate is after how many operations the real cluster changes.
	simSoakUpdate = 100
	// simSoakKinds is how many kinds of claims there are in turn.
	simSoakKinds = 300
)

// simSoak is a simulation that never rests: pods are placed, nodes drained, tainted, added and decided,
// most of it is taken back, and the cluster changes meanwhile. What is in use it counts for itself.
type simSoak struct {
	testing.TB
	random  *rand.Rand
	cluster simulate.Cluster
	state   *simulate.State
	sim     *simulate.Sim
	// templates are those of new nodes, undecided is any of them.
	templates []*simulate.Template
	undecided *simulate.Template
	one, two  *simulate.Shape
	// free is how many devices are free, by node.
	free            map[string]int
	operations      int
	placed, refused int
	updates         int
}

func newSimSoak(t testing.TB) *simSoak {
	s := &simSoak{TB: t, random: rand.New(rand.NewPCG(3, 4))}
	class := &resourceapi.DeviceClass{}
	class.Name = "gpu"
	s.cluster.Classes = []*resourceapi.DeviceClass{class}
	for i := range simSoakNodes {
		node := &corev1.Node{}
		node.Name = fmt.Sprint("node-", i)
		s.cluster.Nodes, s.cluster.Slices = append(s.cluster.Nodes, node), append(s.cluster.Slices, s.slice(node.Name, gpusPerNode))
	}
	s.cluster.Templates = []*resourceapi.ResourceClaimTemplate{s.template("one", 1), s.template("two", 2)}
	var err error
	if s.state, err = simulate.Open(s.cluster, simulate.Options{Features: allocator.AllFeatures()}); err != nil {
		t.Fatal(err)
	}
	s.begin()
	return s
}

// slice has devices with serial numbers that no other has.
func (s *simSoak) slice(node string, devices int) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{}
	slice.Name = node
	slice.Spec = resourceapi.ResourceSliceSpec{
		Driver: gpuDriver, NodeName: ptr.To(node), Pool: resourceapi.ResourcePool{Name: node, Generation: int64(s.updates + 1), ResourceSliceCount: 1},
	}
	for i := range devices {
		uuid := fmt.Sprintf("%s-%d-%d", node, i, s.updates)
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"uuid": {StringValue: &uuid}}})
	}
	return slice
}

// template asks for devices, under another name each time, and for serial numbers at times.
func (s *simSoak) template(name string, count int64) *resourceapi.ResourceClaimTemplate {
	template := &resourceapi.ResourceClaimTemplate{}
	template.Namespace, template.Name = "default", name
	kind := s.updates % simSoakKinds
	exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
	if kind%4 == 0 {
		exactly.Selectors = selecting(fmt.Sprintf(`device.attributes["%s"].uuid.lowerAscii() != "none-%d"`, gpuDriver, kind))
	}
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: fmt.Sprint("r", kind), Exactly: exactly}}
	return template
}

// begin starts a new simulation of the cluster as it is.
func (s *simSoak) begin() {
	pod := func(template string) *corev1.Pod {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = "default", template
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: &template}}
		return pod
	}
	shapes, err := s.state.Shapes([]*corev1.Pod{pod("two"), pod("one")})
	s.must(err)
	s.two, s.one = shapes[0], shapes[1]
	s.sim, s.free = s.state.Sim(), make(map[string]int)
	for i, slice := range s.cluster.Slices {
		s.free[s.cluster.Nodes[i].Name] = len(slice.Spec.Devices)
	}
	s.templates = nil
	for _, gpus := range []int{2, 4, 8} {
		node := &corev1.Node{}
		node.Name = fmt.Sprint("new-", gpus)
		template, err := s.state.Template(simulate.TemplateSpec{Node: node, Slices: []*resourceapi.ResourceSlice{s.slice(node.Name, gpus)}, Price: float64(gpus)})
		s.must(err)
		s.templates = append(s.templates, template)
	}
	s.undecided, err = s.state.Any("any", s.templates...)
	s.must(err)
}

func (s *simSoak) must(err error) {
	if err != nil {
		s.Fatalf("operation %d: %v", s.operations, err)
	}
}

// step is one operation.
func (s *simSoak) step() {
	if s.operations++; s.operations%simSoakUpdate == 0 {
		s.update()
		return
	}
	ctx := context.Background()
	switch n := s.random.IntN(20); {
	case n < 9:
		s.place(ctx, 1+s.random.IntN(2))
	case n < 12:
		s.count(ctx)
	case n < 14:
		s.sim.Fork()
		_, err := s.sim.PlaceMany(ctx, s.two, 1+s.random.IntN(30), simulate.Union(simulate.Real(nil), simulate.New(s.templates[2], 3)), simulate.Spread)
		s.must(err)
		s.sim.Revert()
	case n < 16:
		s.sim.Fork()
		_, err := s.sim.Drain(ctx, simulate.Real(nil), simulate.FirstFit, s.node())
		s.must(err)
		s.sim.Revert()
	case n < 18:
		s.sim.Fork()
		node := s.node()
		s.must(s.sim.Taint(resourceapi.DeviceTaint{Key: fmt.Sprint("k", n), Effect: resourceapi.DeviceTaintEffectNoSchedule},
			slices.Values([]pools.DeviceID{{Driver: gpuDriver, Pool: node, Device: "gpu-0"}})))
		_, err := s.sim.State().FitsMany(ctx, s.one, simulate.Real(nil))
		s.must(err)
		s.sim.Revert()
	default:
		s.decide(ctx)
	}
}

func (s *simSoak) node() string { return s.cluster.Nodes[s.random.IntN(simSoakNodes)].Name }

// place puts a pod with one or two devices on the first node that has them.
func (s *simSoak) place(ctx context.Context, devices int) {
	shape := []*simulate.Shape{s.one, s.two}[devices-1]
	r, err := s.sim.PlaceMany(ctx, shape, 1, simulate.Real(nil), simulate.FirstFit)
	s.must(err)
	want := ""
	for _, node := range s.cluster.Nodes {
		if s.free[node.Name] >= devices {
			want = node.Name
			break
		}
	}
	got := ""
	for p := range r.Placements() {
		got = p.Node.Name()
	}
	if got != want || r.Undecided > 0 {
		s.Fatalf("operation %d: a pod with %d devices is on %q, want %q (%d undecided)", s.operations, devices, got, want, r.Undecided)
	}
	if want == "" {
		s.refused++
		return
	}
	s.free[want] -= devices
	s.placed++
}

// count compares how many more pods fit.
func (s *simSoak) count(ctx context.Context) {
	want := 0
	for _, free := range s.free {
		want += free / 2
	}
	if fit, err := s.sim.State().FitsMany(ctx, s.two, simulate.Real(nil)); err != nil || fit.Pods != want || fit.Undecided > 0 {
		s.Fatalf("operation %d: %d more pods fit, %d nodes undecided, %v; want %d", s.operations, fit.Pods, fit.Undecided, err, want)
	}
}

// decide fills an undecided node, decides it, and takes it back.
func (s *simSoak) decide(ctx context.Context) {
	s.sim.Fork()
	n := 1 + s.random.IntN(8)
	r, err := s.sim.PlaceMany(ctx, s.one, n, simulate.New(s.undecided, 1), simulate.FirstFit)
	s.must(err)
	var node simulate.Node
	for p := range r.Placements() {
		node = p.Node
	}
	options := s.sim.Options(node)
	want := len(slices.DeleteFunc([]int{2, 4, 8}, func(gpus int) bool { return gpus < n }))
	if r.Placed != n || len(options) != want {
		s.Fatalf("operation %d: %d of %d pods are on an undecided node, of which there are %d options; want %d", s.operations, r.Placed, n, len(options), want)
	}
	s.must(s.sim.Decide(node, options[0]))
	s.sim.Revert()
}

// update changes slices, and what pods ask for.
func (s *simSoak) update() {
	s.updates++
	at := s.random.IntN(simSoakNodes)
	s.cluster.Slices = slices.Clone(s.cluster.Slices)
	s.cluster.Slices[at] = s.slice(s.cluster.Nodes[at].Name, 1+s.random.IntN(gpusPerNode))
	s.cluster.Templates = []*resourceapi.ResourceClaimTemplate{s.template("one", 1), s.template("two", 2)}
	var err error
	s.state, err = s.state.Update(s.cluster)
	s.must(err)
	s.begin()
}

// TestSoakSimulate is the short form of BenchmarkSoakSimulate.
func TestSoakSimulate(t *testing.T) {
	s := newSimSoak(t)
	for range 5000 {
		s.step()
	}
	if s.placed == 0 || s.refused == 0 || s.updates == 0 {
		t.Errorf("%d pods are placed, %d refused, %d updates", s.placed, s.refused, s.updates)
	}
}

// BenchmarkSoakSimulate runs operations of a simulation of one cluster; their number is that of -benchtime,
// which is meant to be 1000000x. Memory must have stopped growing by half time.
func BenchmarkSoakSimulate(b *testing.B) {
	s := newSimSoak(b)
	measureSoak(b, s.step, func() int { return s.operations }, func() string {
		return fmt.Sprintf("%d operations, %d pods placed, %d refused, %d updates", s.operations, s.placed, s.refused, s.updates)
	})
}
