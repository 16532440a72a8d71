// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin"
	"github.com/dray-project/dray/schedplugin/autoscaler"
)

const (
	benchNodes = 1000
	// perNode is how many of the eight GPUs of a node are in use. Every tenth node has two left,
	// the others one.
	perNode = 7
)

// addingUp is the in-tree plugin on a snapshot that adds up what all claims hold for each pod.
const addingUp = names.DynamicResources + "AddingUp"

// benchWorld is a cluster of 1,000 nodes with a pod for each GPU in use.
func benchWorld(b *testing.B, plugin string, known *records) *simulation {
	b.Helper()
	dra := autoscaler.NewSnapshot(nil, nil, nil, classes())
	var s *simulation
	switch plugin {
	case recorded:
		s = newSimulationWith(b, plugin, schedplugin.Name, dra, known.plugin)
	case addingUp:
		s = newSimulation(b, plugin, names.DynamicResources, walking{dra})
	default:
		s = newSimulation(b, plugin, plugin, dra)
	}
	for i := range benchNodes {
		node := newNode(fmt.Sprintf("node-%04d", i))
		if err := s.addNode(node, slicesOf(node.Name)); err != nil {
			b.Fatal(err)
		}
		used := perNode
		if i%10 == 9 {
			used--
		}
		for gpu := range used {
			pod := newPod(fmt.Sprintf("%s-%d", node.Name, gpu))
			claim := newClaim(pod.Name+"-gpu", pod, request("gpu", 1))
			claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{{Request: "devices", Driver: driver, Pool: node.Name + "-gpus", Device: fmt.Sprint("gpu-", gpu)}},
			}}
			s.addPod(b, pod, claim)
			if err := s.dra.ReservePodClaims(pod); err != nil {
				b.Fatal(err)
			}
			if err := s.put(pod, node.Name); err != nil {
				b.Fatal(err)
			}
		}
	}
	return s
}

// addPod has a pod refer to claims, and adds those to the snapshot.
func (s *simulation) addPod(b *testing.B, pod *corev1.Pod, claims ...*resourceapi.ResourceClaim) {
	b.Helper()
	for _, claim := range claims {
		refer(pod, claim)
	}
	if err := s.dra.AddClaims(claims); err != nil {
		b.Fatal(err)
	}
}

// scaleUp is a question of how many new nodes pods need.
type scaleUp struct {
	name string
	// pending adds pods, in groups of equal ones.
	pending func(b *testing.B, s *simulation) [][]*corev1.Pod
	// published are the slices of a new node.
	published func(node string) []*resourceapi.ResourceSlice
	nodes     int
}

var scaleUps = []scaleUp{
	{name: "5-pods", pending: numaPods(5), published: slicesOf, nodes: 2},
	{name: "20-pods", pending: numaPods(20), published: slicesOf, nodes: 5},
	{name: "100-pods", pending: numaPods(100), published: slicesOf, nodes: 25},
	{name: "20-pods-of-four-kinds", pending: mixedPods, published: slicesOf, nodes: 7},
	{name: "20-pods-that-share-claims", pending: sharingPods, published: slicesOf, nodes: 2},
	{name: "30-pods-with-partitions", pending: partitionPods, published: partitionsOf, nodes: 2},
	{name: "20-pods-with-extended-resources", pending: extendedPods, published: slicesOf, nodes: 5},
}

// numaPods want two GPUs of one NUMA node each.
func numaPods(n int) func(*testing.B, *simulation) [][]*corev1.Pod {
	return func(b *testing.B, s *simulation) [][]*corev1.Pod {
		b.Helper()
		var pods []*corev1.Pod
		for i := range n {
			pods = append(pods, s.addNUMAPod(b, fmt.Sprint("new-", i), 2))
		}
		return [][]*corev1.Pod{pods}
	}
}

// addNUMAPod adds a pod that wants GPUs of one NUMA node.
func (s *simulation) addNUMAPod(b *testing.B, name string, gpus int64) *corev1.Pod {
	b.Helper()
	pod := newPod(name)
	claim := newClaim(name+"-gpus", pod, request("gpu", gpus))
	claim.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(driver + "/numa"))}}
	s.addPod(b, pod, claim)
	return pod
}

// mixedPods want four, three, two and one GPU.
func mixedPods(b *testing.B, s *simulation) [][]*corev1.Pod {
	b.Helper()
	groups := make([][]*corev1.Pod, 4)
	for i := range groups {
		for n := range 5 {
			groups[i] = append(groups[i], s.addNUMAPod(b, fmt.Sprintf("new-%d-%d", i, n), int64(4-i)))
		}
	}
	return groups
}

// sharingPods want two GPUs, which four of them share.
func sharingPods(b *testing.B, s *simulation) [][]*corev1.Pod {
	b.Helper()
	var pods []*corev1.Pod
	var claim *resourceapi.ResourceClaim
	for i := range 20 {
		pod := newPod(fmt.Sprint("new-", i))
		if i%4 == 0 {
			claim = newClaim(fmt.Sprint("shared-", i), nil, request("gpu", 2))
			s.addPod(b, pod, claim)
		} else {
			refer(pod, claim)
		}
		pods = append(pods, pod)
	}
	return [][]*corev1.Pod{pods}
}

// partitionPods want a partition with two of the seven slices of a GPU each.
func partitionPods(b *testing.B, s *simulation) [][]*corev1.Pod {
	b.Helper()
	var pods []*corev1.Pod
	for i := range 30 {
		pod := newPod(fmt.Sprint("new-", i))
		asked := request("partition", 1)
		asked.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf(`device.attributes[%q].profile == "2g"`, driver),
		}}}
		s.addPod(b, pod, newClaim(pod.Name+"-partition", pod, asked))
		pods = append(pods, pod)
	}
	return [][]*corev1.Pod{pods}
}

// extendedPods want two GPUs each, as an extended resource.
func extendedPods(_ *testing.B, _ *simulation) [][]*corev1.Pod {
	var pods []*corev1.Pod
	for i := range 20 {
		pod := newPod(fmt.Sprint("new-", i))
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/gpu": resource.MustParse("2")}
		pods = append(pods, pod)
	}
	return [][]*corev1.Pod{pods}
}

// copies makes new nodes as cluster-autoscaler does: of a template, with other names.
func (c *scaleUp) copies() func(n int) (*corev1.Node, []*resourceapi.ResourceSlice) {
	node := newNode("template")
	published := c.published(node.Name)
	return func(n int) (*corev1.Node, []*resourceapi.ResourceSlice) {
		name := fmt.Sprint("fresh-", n)
		made := node.DeepCopy()
		made.Name, made.Labels[corev1.LabelHostname] = name, name
		copied := make([]*resourceapi.ResourceSlice, len(published))
		for i, slice := range published {
			copied[i] = slice.DeepCopy()
			copied[i].Name, copied[i].Spec.NodeName = fmt.Sprintf("%s-%d", slice.Name, n), &name
			copied[i].Spec.Pool.Name = fmt.Sprintf("%s-%d", slice.Spec.Pool.Name, n)
		}
		return made, copied
	}
}

// BenchmarkScaleUp asks, as an estimator does, how many new nodes pending pods need.
func BenchmarkScaleUp(b *testing.B) {
	for _, c := range scaleUps {
		b.Run(c.name, func(b *testing.B) {
			bench(b, func(s *simulation) func() string {
				pods, template := c.pending(b, s), c.copies()
				return func() string {
					n, err := s.addFor(b.Context(), pods, template)
					if err != nil {
						b.Fatal(err)
					}
					return fmt.Sprintf("%d nodes", n)
				}
			}, fmt.Sprintf("%d nodes", c.nodes))
		})
	}
}

// BenchmarkDrain asks where the seven pods of a node would go.
func BenchmarkDrain(b *testing.B) {
	bench(b, func(s *simulation) func() string {
		return func() string {
			places, err := s.drain(b.Context(), "node-0500")
			if err != nil {
				b.Fatal(err)
			}
			return fmt.Sprintf("%d pods moved", len(places))
		}
	}, "7 pods moved")
}

// bench measures a what-if with both plugins, on snapshots of their own, with the in-tree plugin also on
// one like those that cluster-autoscaler had so far, and with a plugin that knows the answer. What they answer and what claims hold then is compared before.
func bench(b *testing.B, prepare func(*simulation) func() string, want string) {
	b.Helper()
	held, known := "", newRecords()
	for _, plugin := range []string{schedplugin.Name, addingUp, names.DynamicResources, recorded} {
		b.Run(plugin, func(b *testing.B) {
			s := benchWorld(b, plugin, known)
			ask := prepare(s)
			s.fork()
			if got := ask(); got != want {
				b.Fatalf("%s, want %s", got, want)
			}
			if now := describe(b, s.dra); held == "" {
				held = now
			} else if now != held {
				b.Fatalf("the plugins choose other devices: %s", difference(held, now))
			}
			known.take(b, s)
			s.revert()
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				s.fork()
				ask()
				s.revert()
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// difference is the first line in which two texts differ.
func difference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("%q and %q", x[i], y[i])
		}
	}
	return fmt.Sprintf("%d and %d claims", len(x), len(y))
}

// cpuTime is what the process has used, which other programs on the machine do not change.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// partitionsOf are eight GPUs with partitions of one, two, three or all of their seven slices.
func partitionsOf(node string) []*resourceapi.ResourceSlice {
	counters, devices := newSlice(node, "partitions"), newSlice(node, "partitions")
	counters.Name += "-counters"
	for _, slice := range []*resourceapi.ResourceSlice{counters, devices} {
		slice.Spec.Pool.ResourceSliceCount = 2
	}
	for gpu := range 8 {
		set := resourceapi.CounterSet{Name: fmt.Sprint("gpu-", gpu), Counters: make(map[string]resourceapi.Counter)}
		for slice := range 7 {
			set.Counters[fmt.Sprint("slice-", slice)] = resourceapi.Counter{Value: resource.MustParse("1")}
		}
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, set)
		for _, size := range []int{1, 2, 3, 7} {
			for first := 0; first+size <= 7; first += size {
				devices.Spec.Devices = append(devices.Spec.Devices, partition(set.Name, first, size))
			}
		}
	}
	return []*resourceapi.ResourceSlice{counters, devices}
}

// partition takes some slices of a GPU.
func partition(gpu string, first, size int) resourceapi.Device {
	taken := make(map[string]resourceapi.Counter)
	for slice := first; slice < first+size; slice++ {
		taken[fmt.Sprint("slice-", slice)] = resourceapi.Counter{Value: resource.MustParse("1")}
	}
	return resourceapi.Device{
		Name: fmt.Sprintf("%s-%dg-%d", gpu, size, first),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"kind": {StringValue: ptr.To("partition")}, "profile": {StringValue: ptr.To(fmt.Sprintf("%dg", size))},
		},
		ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: gpu, Counters: taken}},
	}
}
