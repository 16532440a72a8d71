// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/simulate"
	"github.com/dray-project/dray/simulate/moves"
)

// selected lets a pod run on nodes with one value of the label pool only.
func selected(pod *corev1.Pod, pool string) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{"pool": pool}
	return pod
}

// divideInThree is divide with three parts for each GPU.
func divideInThree(l *lab) {
	divide(&l.Cluster)
	three := map[string]resourceapi.Counter{"halves": {Value: resource.MustParse("3")}}
	for _, slice := range l.Slices {
		for i := range slice.Spec.SharedCounters {
			slice.Spec.SharedCounters[i].Counters = three
		}
		for i := range slices.Clone(slice.Spec.Devices) {
			device := &slice.Spec.Devices[i]
			if i%3 == 0 {
				device.ConsumesCounters[0].Counters = three
				continue
			}
			if i%3 == 2 {
				third := *device.DeepCopy()
				third.Name += "-more"
				slice.Spec.Devices = append(slice.Spec.Devices, third)
			}
		}
	}
}

// lessIsMore is a cluster in which a node with fewer free devices takes more of the wanted pods: they have a prioritized list of GPUs, as many as
// the first node has or one, or they get a whole GPU where one is free, of which each third would do. That node alone is in pool a.
func lessIsMore(t *testing.T, parts bool, gpus ...int) (l *lab, pod func(name string) *corev1.Pod) {
	l = &lab{T: t, Cluster: gpuCluster(gpus...)}
	l.Nodes[0].Labels = map[string]string{"pool": "a"}
	template := "1"
	if parts {
		divideInThree(l)
	} else {
		list := l.Templates[0].DeepCopy()
		template, list.Name = "list", "list"
		list.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpus", FirstAvailable: []resourceapi.DeviceSubRequest{
			{Name: "all", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(gpus[0])},
			{Name: "one", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
		}}}
		l.Templates = append(l.Templates, list)
	}
	return l, func(name string) *corev1.Pod {
		pod := gpuPod(name, 1)
		pod.Spec.ResourceClaims[0].ResourceClaimTemplateName = &template
		return pod
	}
}

// Where a node with fewer free devices may take more of the wanted pods, some pods have to move, and others must not.
func TestFindWhereLessRoomTakesMorePods(t *testing.T) {
	for name, test := range map[string]struct {
		gpus   []int
		wanted int
		parts  bool
	}{
		"prioritized list": {[]int{4, 1}, 3, false},
		"partitions":       {[]int{1, 1}, 2, true},
	} {
		l, pod := lessIsMore(t, test.parts, test.gpus...)
		for i := range 2 {
			pod := gpuPod(fmt.Sprintf("runs-%d", i), 1)
			if test.parts {
				pod = halfPod(pod.Name)
			}
			if !l.place(pod, "node-0") {
				t.Fatalf("%s: pod %s has no place", name, pod.Name)
			}
		}
		var wanted []*corev1.Pod
		for i := range test.wanted {
			wanted = append(wanted, selected(pod(fmt.Sprintf("wanted-%d", i)), "a"))
		}
		plan, err := moves.Find(t.Context(), l.open(), moves.Question{Wanted: wanted, Nodes: names(&l.Cluster)})
		if err != nil || !plan.Possible || plan.Cost != 1 || !plan.Exact() {
			t.Errorf("%s: %+v, %v; want one move", name, plan, err)
			continue
		}
		l.replay(0, plan, wanted, make(map[string]int))
	}
}

// There, it may help that a pod comes to the node of the wanted ones. That these do not fit without that pod proves nothing.
func TestFindMovesToTheNodeOfTheWanted(t *testing.T) {
	for name, test := range map[string]struct {
		gpus   []int
		wanted int
		parts  bool
	}{
		"prioritized list": {[]int{4, 1}, 3, false},
		"partitions":       {[]int{1, 1}, 2, true},
	} {
		l, pod := lessIsMore(t, test.parts, test.gpus...)
		comes := gpuPod("comes", 1)
		if test.parts {
			comes = halfPod(comes.Name)
		}
		l.place(comes, "node-1")
		var wanted []*corev1.Pod
		for i := range test.wanted {
			wanted = append(wanted, selected(pod(fmt.Sprintf("wanted-%d", i)), "a"))
		}
		nodes := names(&l.Cluster)
		for range 2 { // what is known of a node that admits no wanted pod says nothing of another one
			plan, err := moves.Find(t.Context(), l.open(), moves.Question{Wanted: wanted, Nodes: nodes})
			if err != nil || !plan.Possible || plan.Cost != 1 || !plan.Exact() || plan.Steps[0].To.Name() != "node-0" {
				t.Errorf("%s, nodes %v: %+v, %v; want that the pod comes", name, nodes, plan, err)
				continue
			}
			l.clone().replay(0, plan, wanted, make(map[string]int))
			slices.Reverse(nodes)
		}
		// The pods of a gang get devices together, so all of them fit as it is.
		plan, err := moves.Find(t.Context(), l.open(), moves.Question{Wanted: wanted, Gang: true, Nodes: nodes})
		if err != nil || !plan.Possible || len(plan.Steps) != 0 || len(plan.Places) != test.wanted || !plan.Exact() {
			t.Errorf("%s, a gang: possible %t, %d steps, %d places, %v; want that it fits as it is", name, plan.Possible, len(plan.Steps), len(plan.Places), err)
		}
	}
}

// Nodes with one GPU each take one pod with a prioritized list each. So two pods are counted, without looking at sets of pods.
func TestBoundOfPrioritizedLists(t *testing.T) {
	l, pod := lessIsMore(t, false, 1, 1, 1, 1)
	l.Nodes[1].Labels = map[string]string{"pool": "a"}
	l.place(gpuPod("runs-0", 1), "node-0")
	l.place(gpuPod("runs-1", 1), "node-1")
	wanted := []*corev1.Pod{selected(pod("wanted-0"), "a"), selected(pod("wanted-1"), "a")}
	plan, err := moves.Find(t.Context(), l.open(), moves.Question{Wanted: wanted, Nodes: names(&l.Cluster), Sets: 1})
	if err != nil || plan.Cost != 2 || !plan.Exact() {
		t.Errorf("possible %t, costs %v, at least %v, %v; want a proof that it costs 2", plan.Possible, plan.Cost, plan.Bound, err)
	}
}

// constrain gives all claims a constraint, which holds for any GPUs of a node.
func constrain(c *simulate.Cluster) {
	link := resourceapi.FullyQualifiedName("gpu.example.com/link")
	for _, template := range c.Templates {
		template.Spec.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &link}}
	}
	for _, slice := range c.Slices {
		for i := range slice.Spec.Devices {
			slice.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"link": {StringValue: ptr.To("a")}}
		}
	}
}

// Claims with constraints have no prices. Where a node has one pod like the wanted one at most, it is still proven that another such pod does not make
// room for it: it would need a node itself, and there four others would have to leave.
func TestBoundOfPodsLikeTheWanted(t *testing.T) {
	c := gpuCluster(slices.Repeat([]int{8}, 5)...)
	constrain(&c)
	state := run(t, c, func(put func(*corev1.Pod, int)) {
		put(gpuPod("like-0", 8), 0)
		put(gpuPod("like-1", 8), 1)
		for i := range 12 {
			put(gpuPod(fmt.Sprintf("runs-%d", i), 1), 2+i%3)
		}
	})
	wanted := []*corev1.Pod{gpuPod("wanted", 8)}
	plan, err := moves.Find(t.Context(), state, moves.Question{Wanted: wanted, Nodes: names(&c), Sets: 1})
	if err != nil || !plan.Possible || plan.Cost != 4 || !plan.Exact() {
		t.Errorf("possible %t, costs %v, at least %v, %v; want a proof that it costs 4", plan.Possible, plan.Cost, plan.Bound, err)
	}
}

// As many whole GPUs as there are wanted pods prove nothing if a GPU is left of which each third would do: those may stay in use. Nor does it if the
// node has no CPU for more pods.
func TestFindWherePartsAreLeft(t *testing.T) {
	for _, cpu := range []string{"2", "10"} {
		l, _ := lessIsMore(t, true, 1, 1, 1)
		whole := gpuCluster(2).Slices[0]
		whole.Name, whole.Spec.Pool.Name = "a-whole", "a-whole" // its GPUs come first
		for i := range whole.Spec.Devices {
			whole.Spec.Devices[i].Name += "-whole"
		}
		l.Slices = append(l.Slices, whole)
		for _, node := range l.Nodes {
			node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse("10")}
		}
		if !l.place(gpuPod("dear-0", 1), "node-0") || !l.place(gpuPod("dear-1", 1), "node-0") || !l.place(halfPod("cheap"), "node-1") {
			t.Fatal("there is no place for all pods")
		}
		var wanted []*corev1.Pod
		for i := range 2 {
			pod := selected(gpuPod(fmt.Sprintf("wanted-%d", i), 1), "a")
			pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			}}}
			wanted = append(wanted, pod)
		}
		cost := func(pod *corev1.Pod) float64 {
			if pod.Name == "cheap" {
				return 1
			}
			return 10
		}
		plan, err := moves.Find(t.Context(), l.open(), moves.Question{Wanted: wanted, Nodes: names(&l.Cluster), Cost: cost})
		if err != nil || !plan.Possible || plan.Cost != 1 || !plan.Exact() {
			t.Errorf("CPU for %s: possible %t, costs %v, at least %v, %v; want that the cheap pod comes", cpu, plan.Possible, plan.Cost, plan.Bound, err)
			continue
		}
		l.replay(0, plan, wanted, make(map[string]int))
	}
}

// Pods of which a limit lets none be without a place stay, as does what they keep in use. That is known before sets of pods are looked at.
func TestLimitOfNone(t *testing.T) {
	l := &lab{T: t, Cluster: gpuCluster(4, 4)}
	l.Nodes[0].Labels = map[string]string{"pool": "a"}
	l.place(gpuPod("stays", 1), "node-0")
	l.place(gpuPod("moves", 1), "node-1")
	q := moves.Question{Nodes: names(&l.Cluster), Limits: []moves.Limit{{Pods: l.Pods[:1], Out: 0}}, Sets: 1}
	freeing, err := moves.Free(t.Context(), l.open(), moves.Nodes, q)
	if err != nil || freeing.Most != 1 || freeing.After != 1 || len(freeing.Pods) != 1 || freeing.Pods[0].Name != "moves" {
		t.Errorf("%d of at most %d nodes are empty, %v; want one", freeing.After, freeing.Most, err)
	}
	q.Wanted = []*corev1.Pod{selected(gpuPod("wanted", 4), "a")}
	plan, err := moves.Find(t.Context(), l.open(), q)
	if err != nil || plan.Possible || !plan.Exact() {
		t.Errorf("%+v, %v; want a proof that there is no plan", plan, err)
	}
}

// A node that is named twice is one node: it is not empty twice, and takes no pods twice.
func TestNodesThatAreNamedTwice(t *testing.T) {
	l := scattered(t)
	once := names(&l.Cluster)
	for _, nodes := range [][]string{once, append(slices.Clone(once), once...)} {
		freeing, err := moves.Free(t.Context(), l.open(), moves.Nodes, moves.Question{Nodes: nodes})
		want, wantErr := moves.Free(t.Context(), l.open(), moves.Nodes, moves.Question{Nodes: once})
		if err != nil || wantErr != nil || freeing.Most != want.Most || freeing.After != want.After || freeing.Cost != want.Cost {
			t.Errorf("%v: %d of at most %d nodes are empty at a cost of %v, %v; want %d of %d, %v", nodes, freeing.After, freeing.Most, freeing.Cost, err, want.After, want.Most, want.Cost)
		}
		plan, err := moves.Find(t.Context(), l.open(), moves.Question{Wanted: []*corev1.Pod{gpuPod("wanted", 4)}, Nodes: nodes})
		if err != nil || plan.Cost != 2 || !plan.Exact() {
			t.Errorf("%v: %+v, %v; want a plan for two pods", nodes, plan, err)
		}
	}
}

// Where costs are fractions, no plan is said to cost a whole number at least.
func TestBoundOfFractions(t *testing.T) {
	l := scattered(t)
	for _, cost := range []float64{0.25, 0.75, 1.25} {
		q := moves.Question{Wanted: []*corev1.Pod{gpuPod("wanted", 4)}, Nodes: names(&l.Cluster), Cost: func(*corev1.Pod) float64 { return cost }}
		plan, err := moves.Find(t.Context(), l.open(), q)
		if err != nil || plan.Cost != 2*cost || !plan.Exact() {
			t.Errorf("%v for each pod: %+v, %v; want a plan for two", cost, plan, err)
		}
		q.Attempts = 1
		plan, err = moves.Find(t.Context(), l.open(), q)
		if err != nil || plan.Possible || plan.Bound > 2*cost {
			t.Errorf("%v for each pod, with one attempt: %+v, %v; want no plan, and that it costs at most two pods", cost, plan, err)
		}
	}
}

// Sets of pods that leave too few devices free take no attempts in proportion to the nodes. So a plan is proven with few attempts.
func TestFindPassesOverSetsWithoutDevices(t *testing.T) {
	c := gpuCluster(slices.Repeat([]int{4}, 400)...)
	for i, pool := range []string{"a", "b"} {
		c.Nodes[i].Labels = map[string]string{"pool": pool}
	}
	state := run(t, c, func(put func(*corev1.Pod, int)) {
		for i := range c.Nodes {
			put(gpuPod(fmt.Sprintf("runs-%d", i), 1), i)
		}
	})
	wanted := []*corev1.Pod{selected(gpuPod("wanted-0", 4), "a"), selected(gpuPod("wanted-1", 4), "b")}
	plan, err := moves.Find(t.Context(), state, moves.Question{Wanted: wanted, Nodes: names(&c), Attempts: 500})
	if err != nil || !plan.Possible || plan.Cost != 2 || !plan.Exact() {
		t.Errorf("possible %t, costs %v, at least %v, %v; want a proof that it costs 2", plan.Possible, plan.Cost, plan.Bound, err)
	}
}

// A pod does not take the place of one like it, which would have to find another one then. Here those would be 320 moves for nothing.
func TestFindMovesNoPodForOneLikeIt(t *testing.T) {
	const like = 320
	c := gpuCluster(append(slices.Repeat([]int{8}, like+3), 1)...)
	parts := c
	parts.Slices = c.Slices[like+3:]
	divide(&parts) // so that places have no prices
	c.Slices, c.Templates = append(c.Slices[:like+3:like+3], parts.Slices...), parts.Templates
	state := run(t, c, func(put func(*corev1.Pod, int)) {
		for i := range like {
			put(gpuPod(fmt.Sprintf("like-%d", i), 8), i)
		}
		put(gpuPod("four", 4), like)
		put(gpuPod("two", 2), like)
		for i := range 2 {
			put(gpuPod(fmt.Sprintf("stays-%d", i), 4), like+1+i)
		}
	})
	cost := func(pod *corev1.Pod) float64 {
		if strings.HasPrefix(pod.Name, "stays") {
			return math.Inf(1)
		}
		return 1
	}
	// With one set, the first plan is the only one.
	plan, err := moves.Find(t.Context(), state, moves.Question{Wanted: []*corev1.Pod{gpuPod("wanted", 8)}, Nodes: names(&c), Cost: cost, Sets: 1})
	if err != nil || !plan.Possible || plan.Cost != 2 {
		t.Errorf("possible %t, costs %v, at least %v, %v; want two moves", plan.Possible, plan.Cost, plan.Bound, err)
	}
}
