// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// soon is within what time a pod has to be tried again after the event that cures it. It is one
// second where nothing else runs. A machine that does other things, too, takes longer, and the
// scheduler's own flush, which would try every pod, comes after five minutes.
const soon = 3 * time.Minute

// waitingPod is how a pod comes to wait, and an event that cures it.
type waitingPod struct {
	reason, event string
	pod           *corev1.Pod
	objects       []runtime.Object
	// before is done when the pod waits, and is no cure.
	before func(r *rig)
	cure   func(r *rig)
	config string
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) addSlice(slice *resourceapi.ResourceSlice) {
	r.t.Helper()
	_, err := r.client.ResourceV1().ResourceSlices().Create(r.ctx, slice, metav1.CreateOptions{})
	r.must(err)
}

func (r *rig) deleteSlice(name string) {
	r.t.Helper()
	r.must(r.client.ResourceV1().ResourceSlices().Delete(r.ctx, name, metav1.DeleteOptions{}))
}

func (r *rig) updateSlice(name string, change func(*resourceapi.ResourceSlice)) {
	r.t.Helper()
	slice, err := r.client.ResourceV1().ResourceSlices().Get(r.ctx, name, metav1.GetOptions{})
	r.must(err)
	slice = slice.DeepCopy()
	change(slice)
	_, err = r.client.ResourceV1().ResourceSlices().Update(r.ctx, slice, metav1.UpdateOptions{})
	r.must(err)
}

// updateNode changes node a.
func (r *rig) updateNode(change func(*corev1.Node)) {
	r.t.Helper()
	node, err := r.client.CoreV1().Nodes().Get(r.ctx, "a", metav1.GetOptions{})
	r.must(err)
	node = node.DeepCopy()
	change(node)
	_, err = r.client.CoreV1().Nodes().Update(r.ctx, node, metav1.UpdateOptions{})
	r.must(err)
}

func (r *rig) updateClaim(name string, change func(*resourceapi.ResourceClaim)) {
	r.t.Helper()
	claim, err := r.client.ResourceV1().ResourceClaims("default").Get(r.ctx, name, metav1.GetOptions{})
	r.must(err)
	claim = claim.DeepCopy()
	change(claim)
	_, err = r.client.ResourceV1().ResourceClaims("default").UpdateStatus(r.ctx, claim, metav1.UpdateOptions{})
	r.must(err)
}

func (r *rig) addClaim(claim *resourceapi.ResourceClaim) {
	r.t.Helper()
	claim.ResourceVersion = ""
	_, err := r.client.ResourceV1().ResourceClaims("default").Create(r.ctx, claim, metav1.CreateOptions{})
	r.must(err)
}

func deallocate(claim *resourceapi.ResourceClaim) { claim.Status = resourceapi.ResourceClaimStatus{} }

func roomy(name string) *corev1.Node {
	n := node(name)
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("100"), corev1.ResourceCPU: resource.MustParse("100")}
	n.Labels = map[string]string{corev1.LabelHostname: name}
	return n
}

func registering(name string, count int64) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Allocatable[corev1.ResourceName(name)] = *resource.NewQuantity(count, resource.DecimalSI)
	}
}

func extended(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	return pod
}

func tainted(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	for i := range slice.Spec.Devices {
		slice.Spec.Devices[i].Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	return slice
}

func inPool(slice *resourceapi.ResourceSlice, name, pool string) *resourceapi.ResourceSlice {
	slice.Name, slice.Spec.Pool.Name = name, pool
	return slice
}

func generation(slice *resourceapi.ResourceSlice, name string, generation, count int64) *resourceapi.ResourceSlice {
	slice.Name, slice.Spec.Pool.Generation, slice.Spec.Pool.ResourceSliceCount = name, generation, count
	return slice
}

const impatient = dray + `  pluginConfig:
  - name: Dray
    args: {apiVersion: config.dray/v1alpha1, kind: DrayArgs, filterBudget: 10}
`

func p() *corev1.Pod { return podWith("p", "wanted") }

func base(objects ...runtime.Object) []runtime.Object {
	return append([]runtime.Object{roomy("a"), gpuClass()}, objects...)
}

func one() *resourceapi.ResourceClaim { return gpuClaim("wanted", 1) }

func busy() *resourceapi.ResourceClaim {
	return reservedBy(held(gpuClaim("busy", 1), "a", "gpu-0"), podWith("other", "busy"))
}

// waiting lists each reason for which a pod waits for devices, with each event that cures it.
// docs/operations.md has the same table for people.
func waiting() []waitingPod { return slices.Concat(waitingForDevices(), waitingForOthers()) }

func waitingForDevices() []waitingPod {
	return []waitingPod{
		{reason: "in use", event: "claim deallocated", pod: p(), objects: base(gpus("a", 1), one(), busy()),
			cure: func(r *rig) { r.updateClaim("busy", deallocate) }},
		{reason: "in use", event: "claim deleted", pod: p(), objects: base(gpus("a", 1), one(), busy()),
			cure: func(r *rig) {
				r.must(r.client.ResourceV1().ResourceClaims("default").Delete(r.ctx, "busy", metav1.DeleteOptions{}))
			}},
		{reason: "in use", event: "slice added", pod: p(), objects: base(gpus("a", 1), one(), busy()),
			cure: func(r *rig) { r.addSlice(inPool(gpus("a", 1), "more", "more")) }},
		{reason: "in use", event: "slice updated", pod: p(), objects: base(gpus("a", 1), one(), busy()),
			cure: func(r *rig) {
				r.updateSlice("a-gpus", func(s *resourceapi.ResourceSlice) {
					s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: "new"})
				})
			}},
		{reason: "in use", event: "node added", pod: p(), objects: base(gpus("a", 1), gpus("b", 1), one(), busy()),
			cure: func(r *rig) {
				_, err := r.client.CoreV1().Nodes().Create(r.ctx, roomy("b"), metav1.CreateOptions{})
				r.must(err)
			}},
		{reason: "in use by all", event: "slice deleted", pod: p(),
			objects: base(gpus("a", 2), inPool(gpus("a", 1), "x", "x"), wanting(resourceapi.DeviceAllocationModeAll),
				reservedBy(held(gpuClaim("busy", 1), "x", "gpu-0"), podWith("other", "busy"))),
			cure: func(r *rig) { r.deleteSlice("x") }},
		{reason: "no devices", event: "slice added", pod: p(), objects: base(one()), cure: func(r *rig) { r.addSlice(gpus("a", 1)) }},
		{reason: "tainted", event: "slice updated", pod: p(), objects: base(tainted(gpus("a", 1)), one()),
			cure: func(r *rig) {
				r.updateSlice("a-gpus", func(s *resourceapi.ResourceSlice) { s.Spec.Devices[0].Taints = nil })
			}},
		{reason: "incomplete pool", event: "slice added", pod: p(), objects: base(generation(gpus("a", 1), "s-1", 1, 2), one()),
			cure: func(r *rig) {
				more := generation(gpus("a", 0), "s-2", 1, 2)
				more.Spec.Devices = []resourceapi.Device{{Name: "other"}}
				r.addSlice(more)
			}},
		{reason: "incomplete pool", event: "slice deleted", pod: p(),
			objects: base(generation(gpus("a", 1), "s-1", 1, 1), generation(gpus("a", 1), "s-2", 2, 2), one()),
			cure:    func(r *rig) { r.deleteSlice("s-2") }},
		{reason: "invalid pool", event: "slice deleted", pod: p(),
			objects: base(generation(gpus("a", 1), "s-1", 1, 1), generation(repeated(gpus("a", 1)), "s-2", 2, 1), one()),
			cure:    func(r *rig) { r.deleteSlice("s-2") }},
		{reason: "error of a selector", event: "slice deleted", pod: p(),
			objects: base(modelled(inPool(gpus("a", 1), "z", "z")), gpus("a", 1), selecting(one())),
			cure:    func(r *rig) { r.deleteSlice("a-gpus") }},
		{reason: "error of a selector", event: "claim allocated", pod: p(),
			objects: base(modelled(inPool(gpus("a", 1), "z", "z")), gpus("a", 1), selecting(one()), gpuClaim("spare", 1)),
			cure: func(r *rig) {
				r.updateClaim("spare", func(c *resourceapi.ResourceClaim) { c.Status = held(gpuClaim("spare", 1), "a", "gpu-0").Status })
			}},
		{reason: "error of a selector", event: "slice updated", pod: p(), objects: base(gpus("a", 1), selecting(one())),
			cure: func(r *rig) { r.updateSlice("a-gpus", func(s *resourceapi.ResourceSlice) { modelled(s) }) }},
		{reason: "no class", event: "class added", pod: p(), objects: []runtime.Object{roomy("a"), gpus("a", 1), one()},
			cure: func(r *rig) {
				_, err := r.client.ResourceV1().DeviceClasses().Create(r.ctx, gpuClass(), metav1.CreateOptions{})
				r.must(err)
			}},
		{reason: "not matching", event: "class updated", pod: p(), objects: []runtime.Object{roomy("a"), gpus("a", 1), one(), selectingNone(gpuClass())},
			cure: func(r *rig) {
				_, err := r.client.ResourceV1().DeviceClasses().Update(r.ctx, gpuClass(), metav1.UpdateOptions{})
				r.must(err)
			}},
		{reason: "devices of other nodes", event: "node labelled", pod: p(), objects: base(ofZone(gpus("a", 1)), one()),
			cure: func(r *rig) { r.updateNode(func(n *corev1.Node) { n.Labels["zone"] = "z" }) }},
	}
}

// waitingForOthers are those for which devices are not what is missing.
func waitingForOthers() []waitingPod {
	return []waitingPod{
		{reason: "no claim", event: "claim added", pod: p(), objects: base(gpus("a", 1)), cure: func(r *rig) { r.addClaim(one()) }},
		{reason: "claim allocated on a node that is gone", event: "claim given up", pod: p(), objects: base(gpus("a", 1), held(one(), "gone", "gpu-0")),
			cure: func(*rig) {}},
		{reason: "claim full", event: "consumer removed", pod: p(), objects: base(gpus("a", 1), filled(held(one(), "a", "gpu-0"))),
			cure: func(r *rig) {
				r.updateClaim("wanted", func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = c.Status.ReservedFor[1:] })
			}},
		{reason: "claim in flight", event: "given up", pod: p(), objects: base(gpus("a", 1), one()),
			before: func(r *rig) { r.holdFirst() }, cure: func(r *rig) { r.handle.RejectWaitingPod("first") }},
		{reason: "extended resource", event: "slice added", pod: extended(podWith("p")), objects: base(), cure: func(r *rig) { r.addSlice(gpus("a", 1)) }},
		{reason: "extended resource", event: "device plugin registered", pod: extended(podWith("p")), objects: base(),
			cure: func(r *rig) { r.updateNode(registering("example.com/gpu", 1)) }},
		{reason: "extended resource of an earlier attempt", event: "claim deleted", pod: extended(podWith("p")), objects: base(gpus("a", 1), leftover("p")),
			cure: func(*rig) {}},
		{reason: "set aside", event: "nominated pod lands elsewhere", pod: p(), objects: base(gpus("a", 1), gpus("b", 1), one(), gpuClaim("high", 1), gatedFor("b", nominatedTo(withPriority(podWith("high", "high"), 10), "a"))),
			before: func(r *rig) {
				cordoned := roomy("b")
				cordoned.Spec.Unschedulable = true
				_, err := r.client.CoreV1().Nodes().Create(r.ctx, cordoned, metav1.CreateOptions{})
				r.must(err)
			},
			cure: func(r *rig) {
				r.update("high", func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
			}},
		{reason: "set aside", event: "nominated pod deleted", pod: p(), objects: base(gpus("a", 1), one(), gpuClaim("high", 1), gatedFor("b", nominatedTo(withPriority(podWith("high", "high"), 10), "a"))),
			cure: func(r *rig) { r.must(r.client.CoreV1().Pods("default").Delete(r.ctx, "high", metav1.DeleteOptions{})) }},
		{reason: "undecided", event: "time", config: impatient, pod: podWith("p", "many"), objects: base(gpus("a", 16), gpuClaim("many", 16)),
			cure: func(*rig) {}},
	}
}

func (r *rig) update(name string, change func(*corev1.Pod)) {
	r.t.Helper()
	pod := r.pod(name).DeepCopy()
	change(pod)
	_, err := r.client.CoreV1().Pods("default").Update(r.ctx, pod, metav1.UpdateOptions{})
	r.must(err)
}

func repeated(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	slice.Spec.Devices = append(slice.Spec.Devices, slice.Spec.Devices[0])
	return slice
}

func selectingNone(class *resourceapi.DeviceClass) *resourceapi.DeviceClass {
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "false"}}}
	return class
}

func ofZone(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	slice.Spec.NodeName = nil
	slice.Spec.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"z"}}},
	}}}
	return slice
}

func filled(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	for i := range resourceapi.ResourceClaimReservedForMaxSize {
		reservedBy(claim, podWith("consumer-"+string(rune('a'+i%26))+string(rune('a'+i/26))))
	}
	return claim
}

// leftover is a claim for extended resources that an earlier attempt left behind.
func leftover(pod string) *resourceapi.ResourceClaim {
	claim := gpuClaim(pod+"-extended", 1)
	claim.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: podWith(pod).UID, Controller: ptr.To(true)}}
	return claim
}

func gatedFor(node string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.SchedulerName = "default-scheduler"
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}}
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return pod
}

// holdFirst has a pod wait with its devices reserved.
func (r *rig) holdFirst() {
	r.t.Helper()
	r.create(podWith("first", "wanted"))
	select {
	case <-r.held:
	case <-time.After(soon):
		r.t.Fatal("the first pod did not reserve")
	}
}

// mere is an event that cures nothing for a pod whose claim wanted asks for one device, all of
// which are in use.
type mere struct {
	name string
	do   func(r *rig)
}

func mereEvents() []mere {
	return []mere{
		{"another claim is added", func(r *rig) { r.addClaim(gpuClaim("another", 1)) }},
		{"another claim is allocated", func(r *rig) {
			r.updateClaim("spare", func(c *resourceapi.ResourceClaim) { c.Status = held(gpuClaim("spare", 1), "b", "gpu-0").Status })
		}},
		{"another claim without devices is deleted", func(r *rig) {
			r.must(r.client.ResourceV1().ResourceClaims("default").Delete(r.ctx, "idle", metav1.DeleteOptions{}))
		}},
		{"the claim is labelled", func(r *rig) {
			claim, err := r.client.ResourceV1().ResourceClaims("default").Get(r.ctx, "wanted", metav1.GetOptions{})
			r.must(err)
			claim = claim.DeepCopy()
			claim.Labels = map[string]string{"a": "b"}
			_, err = r.client.ResourceV1().ResourceClaims("default").Update(r.ctx, claim, metav1.UpdateOptions{})
			r.must(err)
		}},
		{"the holder is reported", func(r *rig) {
			r.updateClaim("busy", func(c *resourceapi.ResourceClaim) {
				c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: "gpu.example.com", Pool: "a", Device: "gpu-0"}}
			})
		}},
		{"a node is labelled", func(r *rig) { r.updateNode(func(n *corev1.Node) { n.Labels["x"] = "y" }) }},
		{"a node has more memory", func(r *rig) { r.updateNode(registering("memory", 1<<30)) }},
		{"a node has a device plugin", func(r *rig) { r.updateNode(registering("example.com/other", 1)) }},
		{"a slice with devices for others is deleted", func(r *rig) { r.deleteSlice("x") }},
		{"a pod without claims is bound", func(r *rig) { r.bound(podWith("light")) }},
		{"a pod with a claim is bound", func(r *rig) { r.bound(podWith("heavy", "spare")) }},
		{"a pod without claims is deleted", func(r *rig) {
			r.must(r.client.CoreV1().Pods("default").Delete(r.ctx, "light", metav1.DeleteOptions{}))
		}},
		{"a pod is deleted that still has its claim", func(r *rig) {
			r.must(r.client.CoreV1().Pods("default").Delete(r.ctx, "heavy", metav1.DeleteOptions{}))
		}},
	}
}

// bound creates a pod that runs on a node.
func (r *rig) bound(pod *corev1.Pod) {
	pod.Spec.NodeName, pod.Status.Phase = "a", corev1.PodRunning
	r.create(pod)
}

// wakeups counts the attempts that events cause which cure nothing.
func wakeups(t *testing.T, profiles string) map[string]int {
	t.Helper()
	r, err := newScheduler(t, profiles, roomy("a"), gpuClass(), gpus("a", 1), inPool(gpus("b", 1), "x", "x"), gpuClaim("wanted", 1), gpuClaim("idle", 1), gpuClaim("spare", 1),
		reservedBy(held(gpuClaim("busy", 1), "a", "gpu-0"), podWith("other", "busy")))
	r.must(err)
	r.run()
	r.create(podWith("p", "wanted"))
	r.waitForRejection("p")
	counts := make(map[string]int)
	for _, event := range mereEvents() {
		before := r.attemptsOf("p")
		event.do(r)
		time.Sleep(50 * time.Millisecond) // for the event to get there
		r.idle()
		if n := r.attemptsOf("p") - before; n > 0 {
			counts[event.name] = n
		}
	}
	// That it waits all the while is what the events are about.
	before := r.attemptsOf("p")
	r.updateClaim("busy", deallocate)
	r.waitFor(soon, "p")
	// The attempt that succeeds was caused by what cures the pod, others by what was late.
	if n := r.attemptsOf("p") - before - 1; n > 0 {
		counts["late"] = n
	}
	return counts
}

// An event that cannot help does not requeue a pod.
func TestNoNeedlessAttempts(t *testing.T) {
	if counts := wakeups(t, dray); len(counts) > 0 {
		t.Errorf("attempts after events that cure nothing: %v", counts)
	}
	t.Logf("with the in-tree plugin: %v", wakeups(t, inTree))
}

// Each pod that waits is tried again as soon as something happens that cures what it waits
// for.
func TestNoPodIsForgotten(t *testing.T) {
	for _, test := range waiting() {
		t.Run(test.reason+"/"+test.event, func(t *testing.T) {
			config := test.config
			if config == "" {
				config = dray
			}
			r, err := newScheduler(t, config, test.objects...)
			r.must(err)
			r.run()
			if test.before != nil {
				test.before(r)
			}
			r.create(test.pod)
			if test.reason == "no claim" {
				r.idle() // it is not even tried
			} else if !slices.Contains([]string{"claim given up", "time"}, test.event) {
				r.waitForRejection("p")
			}
			test.cure(r)
			r.waitFor(soon, "p")
		})
	}
}
