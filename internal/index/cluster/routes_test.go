// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/dray-project/dray/internal/dev/given"
)

// selecting are node selectors that list values of a label, of another one, of the name, or none.
func selecting() []*corev1.NodeSelector {
	name := func(value string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{value}},
		}}
	}
	a, rack := given.InZone("a"), given.NodeSelector("rack", corev1.NodeSelectorOpIn, "r1")
	exists := given.NodeSelector("zone", corev1.NodeSelectorOpExists)
	return []*corev1.NodeSelector{
		a, given.InZone("a", "b"), given.InZone("b"), rack, exists,
		given.NodeSelector("zone", corev1.NodeSelectorOpNotIn, "a"),
		{NodeSelectorTerms: []corev1.NodeSelectorTerm{name("n2")}},
		{NodeSelectorTerms: []corev1.NodeSelectorTerm{name("n1"), a.NodeSelectorTerms[0]}},
		{NodeSelectorTerms: []corev1.NodeSelectorTerm{rack.NodeSelectorTerms[0], exists.NodeSelectorTerms[0]}},
		{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{a.NodeSelectorTerms[0].MatchExpressions[0], rack.NodeSelectorTerms[0].MatchExpressions[0]},
		}}},
	}
}

// drawChoice sets one of the ways to choose nodes, or none.
func drawChoice(t *rapid.T, selectors bool, name **string, all **bool, selector **corev1.NodeSelector) {
	ways := 3
	if selectors {
		ways = 6
	}
	switch rapid.IntRange(0, ways-1).Draw(t, "way") {
	case 0:
	case 1:
		*name = ptr.To(rapid.SampledFrom([]string{"n0", "n1", "n2", "n9"}).Draw(t, "name"))
	case 2:
		*all = ptr.To(true)
	default:
		*selector = rapid.SampledFrom(selecting()).Draw(t, "selector")
	}
}

func drawPool(t *rapid.T) objects {
	selectors := rapid.Bool().Draw(t, "selectors")
	list := make(objects, rapid.IntRange(1, 8).Draw(t, "slices"))
	for i := range list {
		list[i] = given.Slice(fmt.Sprintf("s%d", i), "p", given.Count(int64(len(list))))
		spec := &list[i].Spec
		for d := range rapid.IntRange(1, 4).Draw(t, "devices") {
			device := resourceapi.Device{Name: fmt.Sprintf("d%d-%d", i, d)}
			drawChoice(t, selectors, &device.NodeName, &device.AllNodes, &device.NodeSelector)
			spec.Devices = append(spec.Devices, device)
		}
		if rapid.Bool().Draw(t, "perDevice") {
			given.PerDevice(list[i])
		}
		if spec.PerDeviceNodeSelection == nil || rapid.IntRange(0, 3).Draw(t, "both") == 0 {
			drawChoice(t, selectors, &spec.NodeName, &spec.AllNodes, &spec.NodeSelector)
		}
	}
	return list
}

// chooses reads the API: whether there is a choice of nodes, and whether it is for the node.
func chooses(t *rapid.T, node *corev1.Node, name *string, all *bool, selector *corev1.NodeSelector) (set, match bool) {
	switch {
	case name != nil:
		return true, *name == node.Name
	case all != nil:
		return true, true
	case selector == nil:
		return false, false
	}
	parsed, err := nodeaffinity.NewNodeSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return true, parsed.Match(node)
}

// reached looks at all slices of a pool one after the other.
func reached(t *rapid.T, list objects, node *corev1.Node) string {
	line := ""
	for _, slice := range list {
		spec, devices, some := &slice.Spec, "", false
		for i := range spec.Devices {
			d := &spec.Devices[i]
			_, onNode := chooses(t, node, d.NodeName, d.AllNodes, d.NodeSelector)
			if onNode = onNode || spec.PerDeviceNodeSelection == nil; onNode {
				devices += " " + d.Name
			} else {
				devices += " (" + d.Name + ")"
			}
			some = some || onNode
		}
		set, match := chooses(t, node, spec.NodeName, spec.AllNodes, spec.NodeSelector)
		if set && match || !set && some && spec.PerDeviceNodeSelection != nil {
			line += devices
		}
	}
	if line == "" {
		return ""
	}
	return "gpu.example.com/p:" + line
}

// A node reaches the slices and devices that select it, in whatever way. It does when asked first, and again
// after others.
func TestNodesReachWhatChoosesThem(t *testing.T) {
	nodes := []*corev1.Node{
		given.Node("n0", "zone", "a"), given.Node("n1", "zone", "b", "rack", "r1"), given.Node("n2"), given.Node("n3", "zone", "a", "rack", "r1"),
		given.Node("n4", "zone", "c"), given.Node("n5", "rack", "r1"),
	}
	rapid.Check(t, func(t *rapid.T) {
		list := drawPool(t)
		s := Build(everything, list)
		for range 2 {
			for _, node := range nodes {
				view, err := s.GatherPools(node)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := describe(view), reached(t, list, node); got != want {
					t.Fatalf("node %q reaches %q, want %q", node.Name, got, want)
				}
			}
		}
	})
}
