// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

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
