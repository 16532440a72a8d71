// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

// changing is a world in which a pod waits for devices, and things happen at random.
type changing struct {
	*world
	rand   *rand.Rand
	pod    *corev1.Pod
	hints  []fwk.ClusterEventWithHint
	slices map[string]*resourceapi.ResourceSlice
	busy   []string // claims that hold devices
	class  *resourceapi.DeviceClass
}

// happened is an event as the scheduling queue is told of it.
type happened struct {
	name          string
	resource      fwk.EventResource
	action        fwk.ActionType
	before, after any
}

func newChanging(t *testing.T, seed uint64) *changing {
	c := &changing{rand: rand.New(rand.NewPCG(seed, 6)), pod: podWith("p", "wanted"), slices: make(map[string]*resourceapi.ResourceSlice), class: gpuClass()}
	wanted := gpuClaim("wanted", 1+c.rand.Int64N(3))
	request := wanted.Spec.Devices.Requests[0].Exactly
	if c.rand.IntN(4) == 0 {
		request.AllocationMode, request.Count = resourceapi.DeviceAllocationModeAll, 0
	}
	if c.rand.IntN(3) == 0 { // an error on devices without the attribute
		request.Selectors = []resourceapi.DeviceSelector{deviceSelector(`device.attributes["gpu.example.com"].model == "a"`)}
	}
	if c.rand.IntN(3) == 0 {
		wanted.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName("gpu.example.com/model"))}}
	}
	objects := []runtime.Object{labelled("a", "x"), labelled("b", "y"), c.class, wanted, c.pod}
	for range 1 + c.rand.IntN(3) {
		slice := c.newSlice()
		if c.slices[slice.Name] == nil {
			c.slices[slice.Name] = slice
			objects = append(objects, slice.DeepCopy())
		}
	}
	for i := range 2 {
		c.busy = append(c.busy, fmt.Sprint("busy-", i))
		objects = append(objects, c.holding(c.busy[i]))
	}
	c.world = newWorld(t, setting{objects: objects})
	hints, err := c.plugin.EventsToRegister(c.ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.hints = hints
	return c
}

func deviceSelector(expression string) resourceapi.DeviceSelector {
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
}

func labelled(name, zone string) *corev1.Node {
	n := node(name)
	n.Labels = map[string]string{"zone": zone}
	return n
}

// holding is a claim that holds a device, which there may be.
func (c *changing) holding(name string) *resourceapi.ResourceClaim {
	claim := held(gpuClaim(name, 1), "a", fmt.Sprint("gpu-", c.rand.IntN(3)))
	claim.Status.Allocation.Devices.Results[0].Pool = fmt.Sprint("pool-", c.rand.IntN(2))
	return reservedBy(claim, podWith("other"))
}

// newSlice is one of few names, of pools and of devices, so that slices meet.
func (c *changing) newSlice() *resourceapi.ResourceSlice {
	at := c.rand.IntN(5)
	slice := gpus([]string{"a", "b"}[c.rand.IntN(2)], 1+c.rand.IntN(3))
	slice.Name = fmt.Sprint("slice-", at)
	slice.Spec.Pool = resourceapi.ResourcePool{Name: fmt.Sprint("pool-", at%2), Generation: 1 + c.rand.Int64N(2), ResourceSliceCount: 1 + c.rand.Int64N(5)/4}
	first := c.rand.IntN(3)
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		device.Name = fmt.Sprint("gpu-", first+i)
		if c.rand.IntN(5) > 0 {
			model := []string{"a", "a", "b"}[c.rand.IntN(3)]
			device.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}}
		}
		if c.rand.IntN(6) == 0 {
			device.Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
	}
	switch c.rand.IntN(5) {
	case 0:
		slice.Spec.NodeName, slice.Spec.AllNodes = nil, ptr.To(true)
	case 1:
		slice.Spec.NodeName, slice.Spec.NodeSelector = nil, &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"x"}}},
		}}}
	}
	return slice
}

// change does something, and waits until the scheduler knows. It returns nil if there is nothing
// to do.
func (c *changing) change() *happened {
	c.t.Helper()
	switch c.rand.IntN(8) {
	case 0, 1, 2:
		return c.putSlice()
	case 3, 4:
		return c.deleteSlice()
	case 5:
		return c.changeClaim()
	case 6:
		return c.changeClass()
	}
	return c.relabel()
}

func (c *changing) must(err error) {
	if err != nil {
		c.t.Helper()
		c.t.Fatal(err)
	}
}

func (c *changing) putSlice() *happened {
	c.t.Helper()
	resources := c.client.ResourceV1().ResourceSlices()
	slice := c.newSlice()
	before := c.slices[slice.Name]
	if before == nil {
		created, err := resources.Create(c.ctx, slice, metav1.CreateOptions{})
		c.must(err)
		c.slices[slice.Name] = created
		c.known()
		return &happened{"slice added", fwk.ResourceSlice, fwk.Add, nil, created}
	}
	slice.ResourceVersion = before.ResourceVersion
	updated, err := resources.Update(c.ctx, slice, metav1.UpdateOptions{})
	c.must(err)
	c.slices[slice.Name] = updated
	c.known()
	return &happened{"slice updated", fwk.ResourceSlice, fwk.Update, before, updated}
}

func (c *changing) deleteSlice() *happened {
	c.t.Helper()
	for i := range 5 {
		name := fmt.Sprint("slice-", (i+c.rand.IntN(5))%5)
		if before := c.slices[name]; before != nil {
			c.must(c.client.ResourceV1().ResourceSlices().Delete(c.ctx, name, metav1.DeleteOptions{}))
			delete(c.slices, name)
			c.known()
			return &happened{"slice deleted", fwk.ResourceSlice, fwk.Delete, before, nil}
		}
	}
	return nil
}

func (c *changing) changeClaim() *happened {
	c.t.Helper()
	name := c.busy[c.rand.IntN(len(c.busy))]
	before := c.claim(name)
	after := before.DeepCopy()
	what := "claim deallocated"
	if before.Status.Allocation != nil {
		after.Status = resourceapi.ResourceClaimStatus{}
	} else {
		after.Status, what = c.holding(name).Status, "claim allocated"
	}
	updated, err := c.client.ResourceV1().ResourceClaims("default").UpdateStatus(c.ctx, after, metav1.UpdateOptions{})
	c.must(err)
	c.settle()
	return &happened{what, fwk.ResourceClaim, fwk.Update, before, updated}
}

func (c *changing) changeClass() *happened {
	c.t.Helper()
	before := c.class
	after := before.DeepCopy()
	if after.Spec.Selectors = nil; c.rand.IntN(2) == 0 {
		after.Spec.Selectors = []resourceapi.DeviceSelector{deviceSelector(`device.driver == "other.example.com"`)}
	}
	updated, err := c.client.ResourceV1().DeviceClasses().Update(c.ctx, after, metav1.UpdateOptions{})
	c.must(err)
	c.class = updated
	eventually(c.t, func() error {
		if known, err := c.dra.DeviceClasses().Get("gpu"); err != nil || known.ResourceVersion != updated.ResourceVersion {
			return fmt.Errorf("the class is not known as it is: %w", err)
		}
		return nil
	})
	return &happened{"class updated", fwk.DeviceClass, fwk.Update, before, updated}
}

func (c *changing) relabel() *happened {
	at := c.rand.IntN(len(c.nodes))
	before := c.nodes[at].Node()
	after := labelled(before.Name, []string{"x", "y"}[c.rand.IntN(2)])
	changed := framework.NewNodeInfo()
	changed.SetNode(after)
	c.nodes[at] = changed
	return &happened{"node labelled", fwk.Node, fwk.UpdateNodeLabel, before, after}
}

// known waits until the slices are known as they are.
func (c *changing) known() {
	c.t.Helper()
	eventually(c.t, func() error {
		known, err := c.dra.ResourceSlices().ListWithDeviceTaintRules()
		if err != nil || len(known) != len(c.slices) {
			return fmt.Errorf("%d of %d slices are known: %w", len(known), len(c.slices), err)
		}
		for _, slice := range known {
			if want := c.slices[slice.Name]; want == nil || want.ResourceVersion != slice.ResourceVersion {
				return fmt.Errorf("slice %s is not known as it is", slice.Name)
			}
		}
		return nil
	})
}

// fits reports whether some node suits the pod. If none does, the attempt ends as it would in the
// scheduler.
func (c *changing) fits() bool {
	c.t.Helper()
	a := c.attempt(c.pod)
	if a.preFilter().IsSuccess() {
		for at := range c.nodes {
			if a.filter(at).IsSuccess() {
				return true
			}
		}
	}
	c.plugin.PostFilter(c.ctx, a.state, c.pod, nil)
	for len(c.events) > 0 {
		<-c.events
	}
	return false
}

// wakes reports whether an event gets the pod another attempt.
func (c *changing) wakes(event *happened) bool {
	c.t.Helper()
	for _, registered := range c.hints {
		if registered.Event.Resource != event.resource || registered.Event.ActionType&event.action == 0 {
			continue
		}
		if registered.QueueingHintFn == nil {
			return true
		}
		if registered.PreQueueingHintFn != nil {
			concerned, err := registered.PreQueueingHintFn(klog.Background(), event.before, event.after)
			if err != nil {
				c.t.Fatal(err)
			}
			if !concerned.AllPods && !slices.Contains(concerned.Pods, types.NamespacedName{Namespace: c.pod.Namespace, Name: c.pod.Name}) {
				return false
			}
		}
		hint, err := registered.QueueingHintFn(klog.Background(), c.pod, event.before, event.after)
		if err != nil {
			c.t.Fatal(err)
		}
		return hint == fwk.Queue
	}
	return false
}

// TestEventsThatHelpRequeuePods has things happen to a cluster in which a pod waits. Whatever makes a node suit the
// pod gets it another attempt.
func TestEventsThatHelpRequeuePods(t *testing.T) {
	cures := make(map[string]int)
	seeds := uint64(170)
	if testing.Short() { // under the race detector
		seeds = 90
	}
	for seed := range seeds {
		c := newChanging(t, seed)
		for step := range 30 {
			if c.fits() {
				c.change()
				continue
			}
			event := c.change()
			if event == nil {
				continue
			}
			woken := c.wakes(event)
			if !c.fits() {
				continue
			}
			if cures[event.name]++; !woken {
				t.Errorf("seed %d, step %d: %s cures the pod, and does not wake it", seed, step, event.name)
			}
		}
	}
	t.Log(cures)
	for _, name := range strings.Split("slice added,slice updated,slice deleted,claim deallocated,claim allocated,class updated,node labelled", ",") {
		if cures[name] == 0 {
			t.Errorf("%s cured nothing: the test shows little", name)
		}
	}
}
