// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/config"
	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

// handle has an informer of pods.
type handle struct {
	fwk.Handle
	factory informers.SharedInformerFactory
}

func (h handle) ProfileName() string                                    { return "profile" }
func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }

// Get implements ResourceClaimTracker.
func (w *world) Get(_, name string) (*resourceapi.ResourceClaim, error) {
	for _, claim := range w.claims {
		if claim.Name == name {
			return claim, nil
		}
	}
	return nil, fmt.Errorf("claim %s is not there", name)
}

// runs has a pod on the first node that holds one of its devices.
func (w *world) runs(name string, priority int32, device int) *corev1.Pod {
	claim := &resourceapi.ResourceClaim{}
	claim.Namespace, claim.Name, claim.UID = "default", "of-"+name, types.UID("of-"+name)
	claim.Status.Allocation = allocated(0, device)
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer(name))
	w.claims = append(w.claims, claim)
	pod := podOf(name, claim.Name)
	pod.Namespace, pod.Spec.NodeName, pod.Spec.Priority = "default", w.nodes[0].Name, ptr.To(priority)
	w.pods = append(w.pods, pod)
	return pod
}

// preemption knows of the pods of the world. The snapshot is being modified if modified is true.
func (w *world) preemption(modified *bool) *Preemption {
	w.t.Helper()
	client := fake.NewClientset()
	for _, pod := range w.pods {
		if err := client.Tracker().Add(pod); err != nil {
			w.t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	index, err := claimstate.NewIndex(handle{factory: factory})
	if err != nil {
		w.t.Fatal(err)
	}
	factory.Start(w.t.Context().Done())
	factory.WaitForCacheSync(w.t.Context().Done())
	switches, err := config.OpenSwitches("")
	if err != nil {
		w.t.Fatal(err)
	}
	return &Preemption{
		Source: claimstate.Source{DRA: w}, Pods: index, Model: model.New(w, pools.Gates{}), Switches: switches,
		NominatedTo: func(string) []fwk.PodInfo { return nil },
		Modified:    func() bool { return *modified },
		Tried:       func(types.UID) bool { return false },
	}
}

// begin begins the cycle of a pod which wants a device.
func (w *world) begin(p *Preemption, pod *corev1.Pod, grouped bool) *Cycle {
	w.t.Helper()
	view, err := p.Model.Observe()
	if err != nil {
		w.t.Fatal(err)
	}
	var nodes []fwk.NodeInfo
	for _, node := range w.nodes {
		nodes = append(nodes, w.withPods(node))
	}
	wanted := &claimstate.Claim{Object: &resourceapi.ResourceClaim{}, Name: "wanted"}
	wanted.Object.Name, wanted.Object.UID = "wanted", "wanted"
	c, err := p.Begin(Preemptor{Pod: pod, Claims: []*claimstate.Claim{wanted}, Nodes: nodes, Grouped: grouped}, view)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// inUse counts the devices of the first node that are.
func (w *world) inUse(state *pools.State) int {
	w.t.Helper()
	if state == nil {
		return -1
	}
	gathered, err := state.Snapshot().GatherPools(w.nodes[0])
	if err != nil {
		w.t.Fatal(err)
	}
	used := 0
	for reached := range gathered.Pools() {
		for device := range reached.Pool().Devices() {
			if state.Pool(reached.Pool()).InUse(device) {
				used++
			}
		}
	}
	return used
}

func (w *world) expect(what string, state *pools.State, want int) {
	w.t.Helper()
	if got := w.inUse(state); got != want {
		w.t.Errorf("%s: %d devices are in use, want %d", what, got, want)
	}
}

// While the snapshot is being modified, the claims of pods that preemption removed are free for a group.
// Otherwise, a pod that is missing from its node is one that the snapshot does not have yet.
func TestMissingPods(t *testing.T) {
	w, modified := newWorld(t, 1), false
	w.runs("low", 1, 0)
	p := w.preemption(&modified)
	group := podOf("member", "wanted")
	w.expect("before", w.begin(p, group, true).Usage(), 1)
	w.pods = nil
	w.expect("a pod is not on its node", w.begin(p, group, true).Usage(), 1)
	modified = true
	w.expect("a pod by itself", w.begin(p, group, false).Usage(), 1)
	c := w.begin(p, group, true)
	w.expect("preemption took the pod off its node", c.Usage(), 0)
	if !c.InGroupPreemption() || c.IsWhatIf() {
		t.Errorf("absent %v, supposes %v", c.InGroupPreemption(), c.IsWhatIf())
	}
	again, err := c.Restart(w.begin(p, group, false).View())
	if err != nil {
		t.Fatal(err)
	}
	w.expect("once more", again.Usage(), 0)
}

// A pod that is not scheduled is in no cycle: nothing is supposed then.
func TestNoCycle(t *testing.T) {
	var none *Cycle
	if none.IsWhatIf() || none.Removed() || none.InGroupPreemption() || none.HasSetAside() || none.GiveUp() {
		t.Error("something is supposed")
	}
}

// A pod is put back, and stays unless it stands in the way: it is not taken off its node again if a search was given up since.
func TestLastSearchGivenUp(t *testing.T) {
	w, modified := newWorld(t, 1), false
	low, other := w.runs("low", 1, 0), w.runs("other", 1, 1)
	p := w.preemption(&modified)
	c := w.begin(p, podOf("p", "wanted"), false)
	info := w.withPods(w.nodes[0])
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	if c.GiveUp() {
		t.Error("a search is taken for one about evicting pods")
	}
	clone := c.Clone()
	must(clone.Remove(low, info))
	must(clone.Remove(other, info))
	w.expect("without both", clone.Usage(), 0)
	must(clone.Add(t.Context(), other, info, false))
	w.expect("one was put back", clone.Usage(), 1)
	if !clone.GiveUp() {
		t.Error("a search is not taken for one about evicting pods")
	}
	if err := clone.Remove(other, info); !errors.Is(err, ErrUndecided) {
		t.Errorf("a pod is taken off its node though it is not known whether that is needed: %v", err)
	}
	must(clone.Add(t.Context(), low, info, false))
	must(clone.Remove(low, info))
	w.expect("the cycle itself", c.Usage(), 2)
}

// Devices come free of pods with lower priority, for pods that may preempt.
func TestEvicted(t *testing.T) {
	w, modified := newWorld(t, 1), false
	w.runs("low", 1, 0)
	w.runs("same", 5, 1)
	p := w.preemption(&modified)
	info := w.withPods(w.nodes[0])
	pod := podOf("p", "wanted")
	pod.Spec.Priority = ptr.To[int32](5)
	w.expect("pods of lower priority", w.begin(p, pod, false).Evicted(info), 1)
	w.expect("on a node without pods", w.begin(p, pod, false).Evicted(w.withPods(w.nodes[1])), -1)
	peer := podOf("peer", "of-same")
	peer.Spec.NodeName, peer.Spec.Priority = w.nodes[1].Name, ptr.To[int32](5)
	w.pods = append(w.pods, peer)
	w.expect("on a node with pods of equal priority only", w.begin(p, pod, false).Evicted(w.withPods(w.nodes[1])), -1)
	c := w.begin(p, pod, false)
	if err := c.Remove(w.pods[0], info); err != nil {
		t.Fatal(err)
	}
	w.expect("they are gone already", c.Evicted(info), -1)
	c = w.begin(p, pod, false)
	open := &resourceapi.ResourceClaim{}
	open.Name, open.UID = "open", "open"
	aside := &whatIf{}
	at := &target{View: c.View(), Settled: c.Settled(), Node: info, Own: c.Own(), ClaimsOf: w.claimsOf, Allocate: w.firstFree(w.nodes[0])}
	if err := new(asideCache).SetAside(aside, at, "nominated", []*resourceapi.ResourceClaim{open}); err != nil {
		t.Fatal(err)
	}
	c.whatIf = aside
	w.expect("beside a device that is set aside for another pod", c.Evicted(info), 2)
	pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	w.expect("for a pod that never preempts", w.begin(p, pod, false).Evicted(info), -1)
	pod.Spec.PreemptionPolicy, pod.Spec.Priority = nil, ptr.To[int32](1)
	w.expect("for a pod of the lowest priority", w.begin(p, pod, false).Evicted(info), -1)
}

// A pod whose devices are only reserved is seen by pods of higher priority which may preempt it.
func TestLowerInFlight(t *testing.T) {
	w, modified := newWorld(t, 1), false
	low := w.runs("low", 1, 0)
	claim := w.claims[len(w.claims)-1]
	w.pending = map[types.UID]*resourceapi.AllocationResult{claim.UID: claim.Status.Allocation}
	claim.Status.Allocation, claim.Status.ReservedFor = nil, nil
	p := w.preemption(&modified)
	info := w.withPods(w.nodes[0])
	pod := podOf("p", "wanted")
	expect := func(what string, c *Cycle, want bool) {
		t.Helper()
		if got := c.LowerInFlight(info); got != want {
			t.Errorf("%s: got %v", what, got)
		}
	}
	pod.Spec.Priority = ptr.To[int32](2)
	expect("lower priority", w.begin(p, pod, false), true)
	pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	expect("a pod that never preempts", w.begin(p, pod, false), false)
	pod.Spec.PreemptionPolicy, pod.Spec.Priority = nil, ptr.To[int32](1)
	expect("equal priority", w.begin(p, pod, false), false)
	pod.Spec.Priority = ptr.To[int32](2)
	c := w.begin(p, pod, false)
	if err := c.Remove(low, info); err != nil {
		t.Fatal(err)
	}
	expect("it is removed already", c, false)
	low.Status.Phase = corev1.PodRunning
	expect("it runs", w.begin(p, pod, false), false)
}

// On the node to which a pod is nominated, what nobody needs any more comes free besides what pods of lower priority hold, and there only:
// whichever node is asked about first.
func TestEvictedWhereDevicesComeFree(t *testing.T) {
	w, modified := newWorld(t, 1), false
	w.runs("low", 1, 0)
	w.runs("ended", 9, 1).Status.Phase = corev1.PodSucceeded
	w.runs("high", 9, 2)
	elsewhere := podOf("elsewhere", "of-low")
	elsewhere.Spec.NodeName, elsewhere.Spec.Priority = w.nodes[1].Name, ptr.To[int32](1)
	w.pods = append(w.pods, elsewhere)
	pod := podOf("p", "wanted")
	pod.Spec.Priority, pod.Status.NominatedNodeName = ptr.To[int32](5), w.nodes[0].Name
	for _, order := range [][]int{{0, 1, 0}, {1, 0, 1}} {
		p := w.preemption(&modified)
		p.Snapshot = func() fwk.SharedLister { return internalcache.NewSnapshot(w.pods, w.nodes) }
		for range 2 { // two cycles
			c := w.begin(p, pod, false)
			for _, node := range order {
				want := []int{1, 2}[node]
				w.expect(fmt.Sprintf("order %v, node %d", order, node), c.Evicted(w.withPods(w.nodes[node])), want)
			}
		}
	}
}
