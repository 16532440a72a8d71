// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// crowd is a cluster in which a pod of low priority holds all devices but one of each node,
// and, if it is preempted, a pod of high priority is nominated to the node.
type crowd struct {
	nodes, devices int
	used           int
	preempted      bool
}

func (c crowd) world(t testing.TB) (*world, map[string]fwk.PodInfo) {
	objects := []runtime.Object{gpuClass(), gpuClaim("wanted", 1), gpuClaim("wanted-2", 2)}
	pods := make(map[string]*corev1.Pod)
	nominated := make(map[string]fwk.PodInfo)
	for n := range c.nodes {
		name := fmt.Sprintf("node-%d", n)
		low := withPriority(podWith("low-"+name, "of-low-"+name), 1)
		low.Spec.NodeName = name
		if c.preempted {
			preempted(low)
			high := nominatedTo(withPriority(podWith("high-"+name, "of-high-"+name), 10), name)
			info, err := framework.NewPodInfo(high)
			if err != nil {
				t.Fatal(err)
			}
			nominated[name] = info
			objects = append(objects, high, gpuClaim("of-high-"+name, 1))
		}
		pods[name] = low
		var devices []string
		for i := range c.used {
			devices = append(devices, fmt.Sprint("gpu-", i))
		}
		objects = append(objects, low, gpus(name, c.devices), reservedBy(held(gpuClaim("of-low-"+name, int64(c.used)), name, devices...), low))
	}
	w := newWorld(t, setting{objects: objects})
	for n := range c.nodes {
		name := fmt.Sprintf("node-%d", n)
		w.addNode(node(name), pods[name])
	}
	return w, nominated
}

// filterAll does what the framework does for a pod and all nodes, with those pods that are
// nominated to them. It returns how many nodes suit the pod.
func (a *attempt) filterAll(nominated map[string]fwk.PodInfo) int {
	a.t.Helper()
	a.state = framework.NewCycleState()
	expect(a.t, a.preFilter(), fwk.Success, "")
	suited := 0
	for i, nodeInfo := range a.nodes {
		if other := nominated[nodeInfo.Node().Name]; other != nil {
			state, info := a.beside(other, nodeInfo)
			if status := a.plugin.AddPod(a.ctx, state, a.pod, other, info); !status.IsSuccess() {
				a.t.Fatal(status.AsError())
			}
			if !a.plugin.Filter(a.ctx, state, a.pod, info).IsSuccess() {
				continue
			}
		}
		if a.filter(i).IsSuccess() {
			suited++
		}
	}
	return suited
}

// beside is what the framework itself does for a pod that is nominated to a node.
func (a *attempt) beside(other fwk.PodInfo, nodeInfo fwk.NodeInfo) (fwk.CycleState, fwk.NodeInfo) {
	info := nodeInfo.Snapshot()
	state := a.state.Clone()
	info.AddPodInfo(other)
	return state, info
}

// BenchmarkNominated is PreFilter and Filter of one pod on all nodes, with and without a pod
// that is nominated to each of them. The framework's part of the latter is measured by itself:
// no plugin can do without.
func BenchmarkNominated(b *testing.B) {
	for _, nodes := range []int{200, 1000} {
		for _, with := range []bool{false, true} {
			b.Run(fmt.Sprintf("nodes=%d/nominated=%v", nodes, with), func(b *testing.B) {
				c := crowd{nodes: nodes, devices: 8, used: 7, preempted: with}
				w, nominated := c.world(b)
				// One device is left beside the nominated pod, which gets one that comes free.
				if suited := w.attempt(podWith("p", "wanted")).filterAll(nominated); suited != nodes {
					b.Fatalf("%d nodes suit the pod, want %d", suited, nodes)
				}
				if suited := w.attempt(podWith("p", "wanted-2")).filterAll(nominated); suited != 0 {
					b.Fatalf("%d nodes suit a pod with two devices, want none", suited)
				}
				run(b, func() { w.attempt(podWith("p", "wanted")).filterAll(nominated) })
			})
		}
		b.Run(fmt.Sprintf("nodes=%d/framework", nodes), func(b *testing.B) {
			w, nominated := crowd{nodes: nodes, devices: 8, used: 7, preempted: true}.world(b)
			a := w.attempt(podWith("p", "wanted"))
			a.filterAll(nominated)
			run(b, func() {
				for _, nodeInfo := range a.nodes {
					a.beside(nominated[nodeInfo.Node().Name], nodeInfo)
				}
			})
		})
	}
}

// BenchmarkHighPriority is the same for a pod that no node suits, while all nodes have pods of
// lower priority that could be evicted, or of the same.
func BenchmarkHighPriority(b *testing.B) {
	for _, priority := range []int32{1, 10} {
		b.Run(fmt.Sprintf("priority=%d", priority), func(b *testing.B) {
			const nodes = 5000
			w, _ := crowd{nodes: nodes, devices: 8, used: 8}.world(b)
			attempt := func() {
				a := w.attempt(withPriority(podWith("p", "wanted"), priority))
				if suited := a.filterAll(nil); suited != 0 {
					b.Fatalf("%d nodes suit the pod, want none", suited)
				}
				want := fwk.UnschedulableAndUnresolvable
				if priority > 1 {
					want = fwk.Unschedulable
				}
				if got := a.filter(nodes / 2).Code(); got != want {
					b.Fatalf("status %v, want %v", got, want)
				}
			}
			attempt()
			run(b, attempt)
		})
	}
}

// run measures CPU time.
func run(b *testing.B, do func()) {
	var spent time.Duration
	for b.Loop() {
		before := cpuTime()
		do()
		spent += cpuTime() - before
	}
	b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N), "cpu-ms/pod")
}
