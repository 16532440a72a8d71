package autoscaler_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
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

// benchWorld is a cluster of 1,000 nodes with a pod for each GPU in use.
func benchWorld(b *testing.B, plugin string) *simulation {
	b.Helper()
	s := newSimulation(b, plugin, plugin, autoscaler.NewSnapshot(nil, nil, nil, classes()))
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
			pod, claim := benchPod(fmt.Sprintf("%s-%d", node.Name, gpu))
			claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{{Request: "devices", Driver: driver, Pool: node.Name + "-gpus", Device: fmt.Sprint("gpu-", gpu)}},
			}}
			if err := s.dra.AddClaims([]*resourceapi.ResourceClaim{claim}); err != nil {
				b.Fatal(err)
			}
			if err := s.dra.ReservePodClaims(pod); err != nil {
				b.Fatal(err)
			}
			s.pods[node.Name] = append(s.pods[node.Name], pod)
		}
	}
	return s
}

// benchPod wants one GPU.
func benchPod(name string) (*corev1.Pod, *resourceapi.ResourceClaim) {
	pod := newPod(name)
	claim := newClaim(name+"-gpu", pod, request("gpu", 1))
	refer(pod, claim)
	return pod, claim
}

// BenchmarkScaleUp asks, as an estimator does, how many new nodes 20 pods need that want two GPUs
// of one NUMA node each.
func BenchmarkScaleUp(b *testing.B) {
	bench(b, func(s *simulation) string {
		var fresh []*corev1.Node
		for i := range 20 {
			pod := newPod(fmt.Sprint("new-", i))
			claim := newClaim(pod.Name+"-gpus", pod, request("gpu", 2))
			claim.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(driver + "/numa"))}}
			refer(pod, claim)
			if err := s.dra.AddClaims([]*resourceapi.ResourceClaim{claim}); err != nil {
				b.Fatal(err)
			}
			where, err := s.scheduleOn(b.Context(), pod, fresh)
			if err != nil {
				b.Fatal(err)
			}
			if where != "" {
				continue
			}
			node := newNode(fmt.Sprint("fresh-", len(fresh)))
			if err := s.addNode(node, slicesOf(node.Name)); err != nil {
				b.Fatal(err)
			}
			fresh = append(fresh, node)
			if err := s.schedule(b.Context(), pod, node); err != nil {
				b.Fatal(err)
			}
		}
		return fmt.Sprintf("%d nodes for 20 pods", len(fresh))
	}, "5 nodes for 20 pods")
}

// BenchmarkDrain asks where the seven pods of a node would go.
func BenchmarkDrain(b *testing.B) {
	bench(b, func(s *simulation) string {
		moved := 0
		for _, pod := range s.pods["node-0500"] {
			if err := s.unschedule(pod, "node-0500"); err != nil {
				b.Fatal(err)
			}
			if where, err := s.scheduleOn(b.Context(), pod, s.nodes[501:]); err != nil {
				b.Fatal(err)
			} else if where != "" {
				moved++
			}
		}
		return fmt.Sprintf("%d pods moved", moved)
	}, "7 pods moved")
}

// bench measures a what-if with both plugins, on snapshots of their own. What they answer and what
// claims hold then is compared before.
func bench(b *testing.B, ask func(*simulation) string, want string) {
	held := ""
	for _, plugin := range []string{schedplugin.Name, names.DynamicResources} {
		b.Run(plugin, func(b *testing.B) {
			s := benchWorld(b, plugin)
			s.fork()
			if got := ask(s); got != want {
				b.Fatalf("%s, want %s", got, want)
			}
			if now := describe(b, s.dra); held == "" {
				held = now
			} else if now != held {
				b.Fatal("the plugins choose other devices")
			}
			s.revert()
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				s.fork()
				ask(s)
				s.revert()
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
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
