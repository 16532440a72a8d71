// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/moves"
	"github.com/dray-project/dray/simulate/when"
)

const (
	// waits is the number of waiting pods in the question about start times. Each needs all GPUs of
	// a node.
	waits = 100
	// wholeNode is the index of their shape.
	wholeNode = 11
)

// leaving asks about pods that end or are evicted. The peer removes a claim and calls its allocator
// again.
func (b *bench) leaving() []row {
	ends := b.endsUntilAllStart()
	return []row{
		{name: "evict a pod, and put another one in its place", parts: 1, measure: func() figures {
			return per(nil, func(i int) {
				if _, err := b.replace(i); err != nil {
					panic(err)
				}
			})
		}, peer: func(u *upstream) error { _, err := b.replacePeer(u, 0); return err }},
		{name: fmt.Sprintf("when: %d pods with 8 GPUs each, started by %d ends", waits, ends), parts: float64(ends), measure: func() figures {
			queue := b.queue()
			return per(nil, func(int) {
				_, err := when.Starts(b, b.state, queue)
				must(err)
			})
		}, peer: func(u *upstream) error { // one pod ends, and its node is asked again
			pod := b.ending()[0]
			u.release(pod)
			_, err := u.place(b, b.world.shapes[wholeNode], []*corev1.Node{u.node(pod.Spec.NodeName)})
			return err
		}},
		b.movesRow(1, "moves for a pod with 8 GPUs"), b.movesCost(1),
		b.movesRow(4, "moves for a gang of 4 with 8 GPUs each, in a rack", inRack), b.movesCost(4, inRack),
	}
}

// inRack are pods in one rack.
var inRack = simulate.Topology{NodeLabel: "rack"}

// movesRow measures the question which pods move so that a number of pods get all GPUs of a node each.
func (b *bench) movesRow(pods int, name string, common ...simulate.Topology) row {
	return row{name: name, measure: func() figures {
		return per(nil, func(int) { b.moving(pods, common) })
	}}
}

// movesCost compares what these moves cost with the lower bound.
func (b *bench) movesCost(pods int, common ...simulate.Topology) row {
	return row{name: "what these moves cost, beside the lower bound", measure: func() figures {
		plan := b.moving(pods, common)
		return figures{ratio: plan.Cost / plan.Bound}
	}}
}

// replace evicts a pod and puts one like it on its node, and returns the devices that this one gets.
func (b *bench) replace(i int) ([]resourceapi.DeviceRequestAllocationResult, error) {
	sim := b.state.Sim()
	pod := b.world.cluster.Pods[i%len(b.world.cluster.Pods)]
	node, err := b.state.Node(pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	if err := sim.Evict(pod); err != nil {
		return nil, err
	}
	result, err := sim.Put(b, successor(pod), node)
	if err != nil {
		return nil, err
	}
	for placement := range result.Placements() {
		claims, err := placement.Claims(b)
		if err != nil {
			return nil, err
		}
		return claims[0].Status.Allocation.Devices.Results, nil
	}
	return nil, fmt.Errorf("there is no place for pod %s where one like it was", pod.Name)
}

// replacePeer is replace for the peer.
func (b *bench) replacePeer(u *upstream, i int) ([]resourceapi.DeviceRequestAllocationResult, error) {
	pod := b.world.cluster.Pods[i%len(b.world.cluster.Pods)]
	u.release(pod)
	name, err := u.place(b, successor(pod), []*corev1.Node{u.node(pod.Spec.NodeName)})
	if err == nil && name == "" {
		err = fmt.Errorf("there is no place for pod %s where one like it was", pod.Name)
	}
	if err != nil {
		return nil, err
	}
	return u.claims[len(u.claims)-1].Status.Allocation.Devices.Results, nil
}

// successor returns a copy of a running pod without a node.
func successor(pod *corev1.Pod) *corev1.Pod {
	next := pod.DeepCopy()
	next.Name, next.UID, next.Spec.NodeName, next.Status = pod.Name+"-next", "", "", corev1.PodStatus{}
	return next
}

// release removes the claim of a pod.
func (u *upstream) release(pod *corev1.Pod) {
	name := *pod.Status.ResourceClaimStatuses[0].ResourceClaimName
	u.claims = filter(u.claims, func(claim *resourceapi.ResourceClaim) bool { return claim.Name != name })
}

func (u *upstream) node(name string) *corev1.Node {
	return u.nodes[slices.IndexFunc(u.nodes, func(n *corev1.Node) bool { return n.Name == name })]
}

// ending returns all pods in the order in which they end: node by node, the last node first.
func (b *bench) ending() []*corev1.Pod {
	pods := slices.Clone(b.world.cluster.Pods)
	slices.SortStableFunc(pods, func(x, y *corev1.Pod) int { return cmp.Compare(y.Spec.NodeName, x.Spec.NodeName) })
	return pods
}

// queue has pods that wait for whole nodes, while others end at one per minute.
func (b *bench) queue() when.Queue {
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	queue := when.Queue{Now: now, On: simulate.Real(nil)}
	for i, pod := range b.ending() {
		queue.Ends = append(queue.Ends, when.End{Pod: pod, At: now.Add(time.Duration(i+1) * time.Minute)})
	}
	for i := range waits {
		queue.Waits = append(queue.Waits, when.Wait{Pods: []*corev1.Pod{newPod(fmt.Sprint("whole-", i), wholeNode)}})
	}
	return queue
}

// endsUntilAllStart returns how many pods have ended when the last waiting pod starts.
func (b *bench) endsUntilAllStart() int {
	queue := b.queue()
	starts, err := when.Starts(b, b.state, queue)
	must(err)
	last := starts[len(starts)-1]
	if !last.Possible {
		panic("a pod never starts")
	}
	return int(last.At.Sub(queue.Now) / time.Minute)
}

// agreeLeaving replaces pods, and ends pods until the first waiting pod can start.
func (b *bench) agreeLeaving() error {
	for _, i := range []int{0, 1, 2, 3, len(b.world.cluster.Pods) - 1} {
		want, err := b.replacePeer(newUpstream(b.world), i)
		if err != nil {
			return err
		}
		got, err := b.replace(i)
		if err != nil {
			return err
		}
		if !slices.EqualFunc(got, want, func(x, y resourceapi.DeviceRequestAllocationResult) bool {
			return x.Pool == y.Pool && x.Device == y.Device
		}) {
			return fmt.Errorf("the pod in the place of pod %d gets %v from upstream, from Dray %v", i, want, got)
		}
	}
	queue := b.queue()
	starts, err := when.Starts(b, b.state, queue)
	if err != nil {
		return err
	}
	u := newUpstream(b.world)
	name, err := u.place(b, b.world.shapes[wholeNode], u.nodes)
	ended := 0
	for ; err == nil && name == "" && ended < len(queue.Ends); ended++ {
		pod := queue.Ends[ended].Pod
		u.release(pod)
		name, err = u.place(b, b.world.shapes[wholeNode], []*corev1.Node{u.node(pod.Spec.NodeName)})
	}
	if err != nil {
		return err
	}
	if want := queue.Now.Add(time.Duration(ended) * time.Minute); !starts[0].At.Equal(want) {
		return fmt.Errorf("the first pod that waits starts after %d ends by upstream, by Dray at %v", ended, starts[0].At)
	}
	return nil
}

// moving asks which pods move so that a number of pods get all GPUs of a node each.
func (b *bench) moving(pods int, common []simulate.Topology) *moves.Plan {
	question := moves.Question{Topologies: common}
	for i := range pods {
		question.Wanted = append(question.Wanted, newPod(fmt.Sprintf("whole-%d", i), wholeNode))
	}
	for i := range b.world.cluster.Nodes {
		question.Nodes = append(question.Nodes, b.nodeName(i))
	}
	plan, err := moves.Find(b, b.state, question)
	must(err)
	if !plan.Possible || plan.Cost == 0 {
		panic("no moves are possible, or none are needed")
	}
	return plan
}
