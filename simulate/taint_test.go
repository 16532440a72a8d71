// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

func ruleFor(selector resourceapi.DeviceTaintSelector) *resourceapi.DeviceTaintRule {
	rule := &resourceapi.DeviceTaintRule{}
	rule.Name = "rule"
	rule.Spec.DeviceSelector = &selector
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "sick", Effect: resourceapi.DeviceTaintEffectNoExecute}
	return rule
}

// A taint rule is about the devices of new nodes, too, if it selects them. One about a pool is about no new node.
func TestTaintRulesOfNewNodes(t *testing.T) {
	driver := ptr.To("gpu.example.com")
	for name, test := range map[string]struct {
		selector  resourceapi.DeviceTaintSelector
		real, new int // how many pods with one GPU fit
	}{
		"the driver":         {resourceapi.DeviceTaintSelector{Driver: driver}, 0, 0},
		"another driver":     {resourceapi.DeviceTaintSelector{Driver: ptr.To("nic.example.com")}, 4, 4},
		"a device":           {resourceapi.DeviceTaintSelector{Driver: driver, Device: ptr.To("gpu-1")}, 3, 3},
		"a pool":             {resourceapi.DeviceTaintSelector{Driver: driver, Pool: ptr.To("a")}, 0, 4},
		"a device of a pool": {resourceapi.DeviceTaintSelector{Driver: driver, Pool: ptr.To("a"), Device: ptr.To("gpu-1")}, 3, 4},
	} {
		t.Run(name, func(t *testing.T) {
			c := gpuCluster("a")
			plain := open(t, c, simulate.Options{})
			model := nodeNamed("model")
			early, err := plain.Template(simulate.TemplateSpec{Node: model, Slices: []*resourceapi.ResourceSlice{gpuSlice("model", 4)}})
			must(t, err)
			c.TaintRules = []*resourceapi.DeviceTaintRule{ruleFor(test.selector)}
			state, err := plain.Update(c)
			must(t, err)
			later, err := state.Template(simulate.TemplateSpec{Node: model, Slices: []*resourceapi.ResourceSlice{gpuSlice("model", 4)}})
			must(t, err)
			like, err := state.TemplateOf("a", nil)
			must(t, err)
			either, err := state.Any("any", early, like)
			must(t, err)
			c.TaintRules = []*resourceapi.DeviceTaintRule{
				ruleFor(resourceapi.DeviceTaintSelector{Driver: driver, Device: ptr.To("gpu-2")}), ruleFor(resourceapi.DeviceTaintSelector{Driver: driver, Device: ptr.To("gpu-3")}),
			}
			other, err := state.Update(c)
			must(t, err)
			shape := shapeOf(t, state, gpuPods("one", 1))
			if found := fit(t, state, shape, simulate.Real(nil)); found.Pods != test.real {
				t.Errorf("%d pods fit on the node, want %d", found.Pods, test.real)
			}
			for which, template := range map[string]*simulate.Template{"before the rule": early, "after it": later, "of the node": like, "any": either} {
				if found := fit(t, state, shape, simulate.New(template, 1)); found.Pods != test.new {
					t.Errorf("template %s: %d pods fit on a new node, want %d", which, found.Pods, test.new)
				}
				if found := fit(t, plain, shape, simulate.New(template, 1)); found.Pods != 4 {
					t.Errorf("template %s: %d pods fit where there is no rule, want 4", which, found.Pods)
				}
				if found := fit(t, other, shape, simulate.New(template, 1)); found.Pods != 2 {
					t.Errorf("template %s: %d pods fit where other rules taint two devices, want 2", which, found.Pods)
				}
			}
		})
	}
}

// Devices that a node will have are subject to taint rules, as those that it has. The devices of a claim are not tainted.
func TestTaintRulesOfExpectedDevices(t *testing.T) {
	c := gpuCluster("a")
	c.Nodes = append(c.Nodes, nodeNamed("b"))
	c.TaintRules = []*resourceapi.DeviceTaintRule{ruleFor(resourceapi.DeviceTaintSelector{Driver: ptr.To("gpu.example.com"), Device: ptr.To("gpu-0")})}
	state := open(t, c, simulate.Options{})
	template, err := state.TemplateOf("a", nil)
	must(t, err)
	sim := state.Sim()
	must(t, sim.Expect("b", template))
	shape := shapeOf(t, state, gpuPods("one", 1))
	next, err := sim.State().Update(c)
	must(t, err)
	for when, s := range map[string]*simulate.State{"now": sim.State(), "after an update": next} {
		if found := fit(t, s, shape, simulate.Real(nil)); found.Pods != 3+3 {
			t.Errorf("%s: %d pods fit, want 6", when, found.Pods)
		}
	}
	for _, p := range place(t, next.Sim(), shape, 7, simulate.New(template, 0)) {
		claims, err := p.Claims(t.Context())
		must(t, err)
		if device := claims[0].Status.Allocation.Devices.Results[0].Device; device == "gpu-0" {
			t.Errorf("pod %s gets a tainted device", p.Pod.Name)
		}
	}
}

// A node has taints while it starts, when its drivers have not published. Pods will fit there all the same.
func TestExpectOnNodeThatStarts(t *testing.T) {
	c := gpuCluster("a")
	node := nodeNamed("b")
	for _, key := range []string{"node.kubernetes.io/not-ready", "node.cloudprovider.kubernetes.io/uninitialized", "startup-taint.cluster-autoscaler.kubernetes.io/x"} {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	c.Nodes = append(c.Nodes, node)
	state := open(t, c, simulate.Options{})
	template, err := state.TemplateOf("a", nil)
	must(t, err)
	shape := shapeOf(t, state, gpuPods("one", 1))
	sim := state.Sim()
	count := func(when string, s *simulate.State, want int) {
		t.Helper()
		if found := fit(t, s, shape, simulate.Real(nil)); found.Pods != want {
			t.Errorf("%s: %d pods fit, want %d", when, found.Pods, want)
		}
	}
	count("before", sim.State(), 4)
	must(t, sim.Expect("b", template))
	count("now", sim.State(), 8)
	place(t, sim, shape, 8, simulate.Real(nil))
	next, err := sim.State().Update(c)
	must(t, err)
	count("after an update", next, 8)
	c.Slices = append(c.Slices, gpuSlice("b", 4))
	next, err = next.Update(c)
	must(t, err)
	count("published, and not ready", next, 4)
	cordoned, ready := node.DeepCopy(), node.DeepCopy()
	cordoned.Spec.Taints = append(cordoned.Spec.Taints, corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule})
	ready.Spec.Taints = nil
	c.Nodes = []*corev1.Node{c.Nodes[0], ready}
	next, err = next.Update(c)
	must(t, err)
	count("ready", next, 8)
	c.Nodes, c.Slices = []*corev1.Node{c.Nodes[0], cordoned}, c.Slices[:1]
	sim = open(t, c, simulate.Options{}).Sim()
	template, err = sim.State().TemplateOf("a", nil)
	must(t, err)
	must(t, sim.Expect("b", template))
	count("about to be removed", sim.State(), 4)
}

// New nodes like one that is sick, cordoned or about to be removed are as that node was when it was new.
func TestTemplateOfNodeInAState(t *testing.T) {
	c := gpuCluster("a")
	node := c.Nodes[0]
	node.Spec.Unschedulable = true
	for _, key := range []string{
		"node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/disk-pressure",
		"node.cloudprovider.kubernetes.io/shutdown", "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted",
		"startup-taint.cluster-autoscaler.kubernetes.io/x", "status-taint.cluster-autoscaler.kubernetes.io/y",
	} {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	lasting := corev1.Taint{Key: "gpu.example.com/only", Effect: corev1.TaintEffectNoSchedule}
	node.Spec.Taints = append(node.Spec.Taints, lasting)
	before := node.DeepCopy()
	state := open(t, c, simulate.Options{})
	sim := state.Sim()
	sick := pools.DeviceID{Driver: "gpu.example.com", Pool: "a", Device: "gpu-0"}
	must(t, sim.Taint(resourceapi.DeviceTaint{Key: "sick", Effect: resourceapi.DeviceTaintEffectNoSchedule}, slices.Values([]pools.DeviceID{sick})))
	pods := gpuPods("one", 2)
	pods[1].Spec.Tolerations = []corev1.Toleration{{Key: lasting.Key, Operator: corev1.TolerationOpExists}}
	for when, s := range map[string]*simulate.State{"the node": state, "the node with a sick device": sim.State()} {
		template, err := s.TemplateOf("a", nil)
		must(t, err)
		for i, want := range []int{0, 4} {
			if found := fit(t, s, shapeOf(t, s, pods[i:i+1]), simulate.New(template, 1)); found.Pods != want {
				t.Errorf("%s: %d pods fit on a node like it, want %d", when, found.Pods, want)
			}
		}
		if found := fit(t, s, shapeOf(t, s, pods[1:]), simulate.Real(nil)); found.Pods != 0 {
			t.Errorf("%s: %d pods fit, want none", when, found.Pods)
		}
	}
	if !slices.Equal(node.Spec.Taints, before.Spec.Taints) || !node.Spec.Unschedulable {
		t.Error("the node was changed")
	}
}
