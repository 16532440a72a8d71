// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/schedplugin/internal/preempt"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// inGroups gives each device of a slice a value of the attribute numa: that of the groups of these
// sizes, one after the other.
func inGroups(slice *resourceapi.ResourceSlice, sizes ...int) *resourceapi.ResourceSlice {
	at := 0
	for group, size := range sizes {
		for range size {
			slice.Spec.Devices[at].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"numa": {StringValue: ptr.To(fmt.Sprint("group-", group))}, "rank": {IntValue: ptr.To(int64(at % 2))},
			}
			at++
		}
	}
	return slice
}

// hard is a node on which a search for four devices of one group takes some steps: only the last
// group has as many.
func hard() *resourceapi.ResourceSlice {
	return inGroups(gpus("hard", 28), 3, 3, 3, 3, 3, 3, 3, 3, 4)
}

// ofOneGroup is a claim for four devices with the same attribute numa.
func ofOneGroup(name string) *resourceapi.ResourceClaim {
	claim := gpuClaim(name, 4)
	claim.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.example.com/numa"))}}
	return claim
}

func withBudget(steps int) string {
	return dray + fmt.Sprintf(`  pluginConfig:
  - name: Dray
    args: {apiVersion: config.dray/v1alpha1, kind: DrayArgs, filterBudget: %d}
`, steps)
}

// Node hard is free and suits the pod. However early the search there is given up, no pod is evicted from
// the other node for it, and the next attempts find that out. All that is said of the pod tells that it is
// not decided.
func TestNothingIsEvictedWhileUndecided(t *testing.T) {
	undecidedOnce := false
	for _, budget := range []int{3, 5, 8, 12, 20, 200_000} {
		full := inGroups(gpus("full", 4), 4)
		low := withPriority(podWith("low", "of-low"), 1)
		low.Spec.NodeName, low.Spec.SchedulerName, low.Status.Phase = "full", "default-scheduler", corev1.PodRunning
		held := reservedBy(held(gpuClaim("of-low", 4), "full", "gpu-0", "gpu-1", "gpu-2", "gpu-3"), low)
		r, err := newSchedulerOf(t, withBudget(budget), fake.NewClientset(roomy("hard"), roomy("full"), gpuClass(), hard(), full, low, held, ofOneGroup("wanted")))
		r.must(err)
		r.run()
		r.create(withPriority(podWith("p", "wanted"), 10))
		r.waitForAttempt("p")
		said := r.conditionOf("p")
		if budget >= 200_000 && said != "" || said != "" && (!strings.Contains(said, undecidedReason) || !strings.Contains(said, "1 "+refusal.Undecided)) {
			t.Errorf("budget %d: the condition says %q", budget, said)
		}
		r.waitFor(time.Minute, "p")
		if r.pod("p").Spec.NodeName != "hard" || r.pod("low").DeletionTimestamp != nil {
			t.Errorf("budget %d: on %s", budget, r.pod("p").Spec.NodeName)
		}
		if said != "" {
			undecidedOnce = true
			eventually(t, func() error {
				if r.writtenOf("DevicesUndecided") == 0 || r.writtenOf("DevicesUnavailable") > 0 {
					return fmt.Errorf("budget %d: the Events are not about what is not decided", budget)
				}
				return nil
			})
		}
	}
	if !undecidedOnce {
		t.Error("each search was decided: the test shows nothing")
	}
}

// waitForAttempt waits until a pod was tried, and what became of it is known.
func (r *rig) waitForAttempt(name string) {
	r.t.Helper()
	eventually(r.t, func() error {
		if r.pod(name).Spec.NodeName == "" && r.conditionOf(name) == "" {
			return fmt.Errorf("pod %s was not tried", name)
		}
		return nil
	})
}

// conditionOf is why a pod was not scheduled, empty if it was not found to be so.
func (r *rig) conditionOf(name string) string {
	for _, condition := range r.pod(name).Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

func (r *rig) writtenOf(reason string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written[reason]
}

// impatientWorld has a node on which a search for ofOneGroup("wanted") is given up.
func impatientWorld(t *testing.T, features func(*setting), objects ...runtime.Object) *world {
	s := setting{args: "filterBudget: 8", objects: append(objects, gpuClass(), ofOneGroup("wanted"))}
	if features != nil {
		features(&s)
	}
	return newWorld(t, s)
}

// PostFilter ends preemption exactly if a search was given up, whoever else refuses the pod.
func TestPostFilterEndsPreemption(t *testing.T) {
	w := impatientWorld(t, nil, node("hard"), node("none"), hard())
	for _, test := range []struct {
		name  string
		nodes []int
		code  fwk.Code
		says  string
	}{
		{"given up", []int{0, 1}, fwk.UnschedulableAndUnresolvable, undecidedReason},
		{"known of all that were asked", []int{1}, fwk.Unschedulable, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := w.attempt(podWith("p-"+test.name, "wanted"))
			expect(t, a.preFilter(), fwk.Success, "")
			for _, at := range test.nodes {
				a.filter(at)
			}
			_, status := w.plugin.PostFilter(w.ctx, a.state, a.pod, nil)
			expect(t, status, test.code, test.says)
		})
	}
}

// A node on which a search was given up is not one for preemption, also if it would be decided without a pod.
func TestUndecidedNodeIsNoPlaceToEvict(t *testing.T) {
	first, last := withPriority(podWith("first", "of-first"), 1), withPriority(podWith("last", "of-last"), 100)
	w := impatientWorld(t, nil, inGroups(gpus("a", 29), 4, 3, 3, 3, 3, 3, 3, 3, 4),
		reservedBy(held(gpuClaim("of-first", 1), "a", "gpu-0"), first),
		reservedBy(held(gpuClaim("of-last", 1), "a", "gpu-28"), last))
	running(w, "a", first, last)
	a := w.attempt(withPriority(podWith("p", "wanted"), 10))
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.UnschedulableAndUnresolvable, refusal.Undecided)
}

// A pod that preempted others does not preempt more, either, because it is not known whether it has to wait only.
func TestPreemptorDoesNotKnowWhetherItWaits(t *testing.T) {
	w := impatientWorld(t, nil, node("hard"), hard(), reservedBy(held(gpuClaim("of-gone", 1), "hard", "gpu-27"), podWith("gone")))
	a := w.attempt(nominatedTo(podWith("p", "wanted"), "hard"))
	expect(t, a.preFilter(), fwk.Success, "")
	statuses := framework.NewDefaultNodeToStatus()
	statuses.Set("hard", fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithPlugin(Name))
	_, status := w.plugin.PostFilter(w.ctx, a.state, a.pod, statuses)
	expect(t, status, fwk.UnschedulableAndUnresolvable, undecidedReason)
}

// A claim is not given up, either, while it is not known whether the pod fits where it is allocated.
func TestNoClaimIsGivenUpWhileUndecided(t *testing.T) {
	w := impatientWorld(t, nil, node("hard"), node("free"), hard(), inGroups(gpus("free", 4), 4), held(gpuClaim("elsewhere", 1), "hard", "gpu-0"))
	a := w.attempt(podWith("p", "elsewhere", "wanted"))
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.UnschedulableAndUnresolvable, refusal.Undecided)
	expect(t, a.filter(1), fwk.UnschedulableAndUnresolvable, "resource claim default/elsewhere is allocated on other nodes")
	_, status := w.plugin.PostFilter(w.ctx, a.state, a.pod, nil)
	expect(t, status, fwk.UnschedulableAndUnresolvable, undecidedReason)
	if w.claim("elsewhere").Status.Allocation == nil {
		t.Error("the claim was deallocated")
	}
}

// A group does not preempt, either, also if several placements are tried for it.
func TestGroupEndsPreemption(t *testing.T) {
	for name, constraints := range map[string]*schedulingapi.PodGroupSchedulingConstraints{"one placement": nil, "several placements": {}} {
		t.Run(name, func(t *testing.T) {
			group := groupWithClaim()
			group.Spec.SchedulingConstraints = constraints
			w := impatientWorld(t, func(s *setting) {
				s.features = everything
				s.features.EnableTopologyAwareWorkloadScheduling = true
				s.groups = []*schedulingapi.PodGroup{group}
			}, node("hard"), node("none"), hard())
			for at, want := range []fwk.Code{fwk.UnschedulableAndUnresolvable, fwk.Unschedulable} {
				state := framework.NewCycleState()
				a, _ := together(w, state, podWith(fmt.Sprint("p-", at), "wanted"))
				expect(t, a.preFilter(), fwk.Success, "")
				a.filter(at)
				_, status := w.plugin.PodGroupPostFilter(w.ctx, state, &framework.PodGroupInfo{
					Name: "g", Namespace: "default", UnscheduledPods: []*corev1.Pod{a.pod}, PodGroup: group,
				}, nil)
				expect(t, status, want, "")
				if again := w.plugin.endings.Undecided(a.pod.UID); (again > 0) != (want == fwk.UnschedulableAndUnresolvable) {
					t.Errorf("the attempt is repeated: %d", again)
				}
			}
		})
	}
}

// Preemption restores pods one by one, and evicts those with which Filter fails. If Filter fails as the
// search was given up, the pod may stay as well. Then none is evicted on the node.
func TestNoEvictionIfRestoredPodIsUndecided(t *testing.T) {
	first, last := withPriority(podWith("first", "of-first"), 1), withPriority(podWith("last", "of-last"), 1)
	plain := withPriority(podWith("plain"), 1)
	slice := inGroups(gpus("a", 29), 4, 3, 3, 3, 3, 3, 3, 3, 4)
	w := impatientWorld(t, nil, gpuClaim("many", 100), slice, hard(),
		reservedBy(held(gpuClaim("of-first", 1), "a", "gpu-0"), first),
		reservedBy(held(gpuClaim("of-last", 1), "a", "gpu-28"), last))
	info := running(w, "a", first, last, plain)
	running(w, "hard")
	for _, test := range []struct {
		name, claim string
		back        *corev1.Pod
		filtered    fwk.Code
		want        error
	}{
		{"it is in the way", "many", first, fwk.UnschedulableAndUnresolvable, nil},
		{"it is not", "wanted", last, fwk.Success, nil},
		{"not decided", "wanted", first, fwk.UnschedulableAndUnresolvable, preempt.ErrUndecided},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := w.attempt(withPriority(podWith("p", test.claim), 10))
			expect(t, a.preFilter(), fwk.Success, "")
			a.state = a.state.Clone()
			for _, pod := range []*corev1.Pod{first, last, plain} {
				expect(t, w.plugin.RemovePod(w.ctx, a.state, a.pod, a.wrap(pod), info), fwk.Success, "")
			}
			if test.claim == "wanted" {
				expect(t, a.filter(0), fwk.Success, "")
				// For a group, all nodes are looked at without the pods.
				expect(t, a.filter(1), fwk.UnschedulableAndUnresolvable, refusal.Undecided)
			}
			expect(t, w.plugin.AddPod(w.ctx, a.state, a.pod, a.wrap(test.back), info), fwk.Success, "")
			// The framework asks a clone if pods are nominated to the node.
			clone := &attempt{world: w, pod: a.pod, state: a.state.Clone()}
			expect(t, clone.filter(0), test.filtered, "")
			status := w.plugin.RemovePod(w.ctx, a.state, a.pod, a.wrap(plain), info)
			if got := status.AsError(); !errors.Is(got, test.want) {
				t.Errorf("removing a pod again: %v, want %v", got, test.want)
			}
		})
	}
}

// Also where DefaultPreemption is asked before Dray, no pod is evicted while it is not known whether that is
// needed: neither for its devices, nor for what else the node lacks.
func TestUndecidedBeforeOtherPreemption(t *testing.T) {
	const multiPoint = `
- schedulerName: default-scheduler
  plugins:
    multiPoint: {disabled: [{name: DynamicResources}], enabled: [{name: Dray}]}
    preFilter: {enabled: [{name: Counter}]}
`
	small := roomy("small")
	small.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1")
	cpu := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		return pod
	}
	low := cpu(withPriority(podWith("low"), 1))
	low.Spec.NodeName, low.Spec.SchedulerName, low.Status.Phase = "small", "default-scheduler", corev1.PodRunning
	for name, profile := range map[string]string{"as documented": dray, "by multiPoint alone": multiPoint} {
		t.Run(name, func(t *testing.T) {
			r, err := newScheduler(t, strings.Replace(withBudget(8), dray, profile, 1), roomy("hard"), small, gpuClass(), hard(), inGroups(gpus("small", 4), 4), low, ofOneGroup("wanted"))
			r.must(err)
			r.ended = make(chan *corev1.Pod, 1)
			r.run()
			r.create(withPriority(cpu(podWith("p", "wanted")), 10))
			r.waitForAttempt("p")
			select { // pods are evicted in the background
			case pod := <-r.ended:
				t.Errorf("pod %s is evicted", pod.Name)
			case <-time.After(300 * time.Millisecond):
			}
		})
	}
}

// A search about evicting pods that was given up has the pod tried again with larger limits, as one about the pods as they are.
func TestUndecidedEvictionIsTriedAgain(t *testing.T) {
	low, all := withPriority(podWith("low", "of-low"), 1), gpuClaim("of-low", 28)
	names := make([]string, 28)
	for i := range names {
		names[i] = fmt.Sprint("gpu-", i)
	}
	w := impatientWorld(t, nil, gpuClaim("many", 29), hard(), reservedBy(held(all, "hard", names...), low))
	running(w, "hard", low)
	for claim, undecided := range map[string]bool{"wanted": true, "many": false} {
		a := w.attempt(withPriority(podWith("p-"+claim, claim), 10))
		expect(t, a.preFilter(), fwk.Success, "")
		// It is known that the pod does not fit now.
		why := map[bool]string{true: "4 devices: too few left (the others: in use)", false: "29 devices: the node has fewer"}[undecided]
		expect(t, a.filter(0), fwk.UnschedulableAndUnresolvable, "request gpus wants "+why)
		_, status := w.plugin.PostFilter(w.ctx, a.state, a.pod, nil)
		expect(t, status, fwk.Unschedulable, "")
		if raised := w.plugin.budgetLevel(a.pod.UID) > 0; raised != undecided {
			t.Errorf("claim %s: the limits are raised: %v, want %v", claim, raised, undecided)
		}
	}
}
