// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/explain"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate"
)

const root = "gpu.example.com/root"

// rooted is a device as the brute force sees it: "" without the attribute, a value, or a group that agrees
// in a value which is not known, as "?0".
type rooted struct{ name, value string }

func (d rooted) unknown() bool { return strings.HasPrefix(d.value, "?") }

// rootWorld is a template with such devices, and a pod.
type rootWorld struct {
	devices  []rooted
	requests []rootRequest
	match    []int // requests that a matchAttribute covers; nil for none
	distinct []int
}

// rootRequest asks for devices of which a selector holds.
type rootRequest struct {
	count    int
	selector string
}

// rootSelectors are expressions, and what they say of values that are known.
var rootSelectors = map[string]func(value string) bool{
	"": func(string) bool { return true },
	`"root" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"].root == "x"`:    func(v string) bool { return v == "x" },
	`!("root" in device.attributes["gpu.example.com"])`:                                                     func(v string) bool { return v == "" },
	`!("root" in device.attributes["gpu.example.com"]) || device.attributes["gpu.example.com"].root != "x"`: func(v string) bool { return v != "x" },
}

func newRootWorld(random *rand.Rand) *rootWorld {
	w := &rootWorld{}
	for i := range 2 + random.IntN(4) {
		w.devices = append(w.devices, rooted{fmt.Sprint("gpu-", i), []string{"", "x", "y", "?0", "?0", "?1", "?1"}[random.IntN(7)]})
	}
	expressions := []string{"", "", ""}
	for expression := range rootSelectors {
		expressions = append(expressions, expression)
	}
	slices.Sort(expressions)
	for range 1 + random.IntN(2) {
		w.requests = append(w.requests, rootRequest{1 + random.IntN(2), expressions[random.IntN(len(expressions))]})
	}
	covered := func() []int {
		switch random.IntN(3) {
		case 0:
			return nil
		case 1:
			return []int{0}
		}
		return []int{0, len(w.requests) - 1}
	}
	w.match, w.distinct = covered(), covered()
	return w
}

// first is the first choice of devices that satisfies everything, one request after the other, nil if
// there is none. It tries them all.
func (w *rootWorld) first() []int {
	var request []int
	for r := range w.requests {
		request = append(request, slices.Repeat([]int{r}, w.requests[r].count)...)
	}
	var try func(chosen []int) []int
	try = func(chosen []int) []int {
		if len(chosen) == len(request) {
			if w.satisfies(chosen, request, func(d rooted) string { return d.value }, false) {
				return slices.Clone(chosen)
			}
			return nil
		}
		for d := range w.devices {
			if !slices.Contains(chosen, d) {
				if found := try(append(chosen, d)); found != nil {
					return found
				}
			}
		}
		return nil
	}
	return try(nil)
}

// satisfies judges a choice by what values devices have. Values that are known include all but groups.
func (w *rootWorld) satisfies(chosen, request []int, value func(rooted) string, known bool) bool {
	for i, d := range chosen {
		expression := w.requests[request[i]].selector
		if !known && expression != "" && w.devices[d].unknown() || !rootSelectors[expression](value(w.devices[d])) {
			return false
		}
	}
	for i, d := range chosen {
		a := w.devices[d]
		if slices.Contains(w.distinct, request[i]) && (value(a) == "" || !known && a.unknown()) || slices.Contains(w.match, request[i]) && value(a) == "" {
			return false
		}
		for j, e := range chosen[:i] {
			same := value(a) == value(w.devices[e])
			if slices.Contains(w.match, request[i]) && slices.Contains(w.match, request[j]) && !same ||
				slices.Contains(w.distinct, request[i]) && slices.Contains(w.distinct, request[j]) && same {
				return false
			}
		}
	}
	return true
}

// objects are the world as the simulation has it.
func (w *rootWorld) objects() (simulate.Cluster, simulate.TemplateSpec) {
	c := gpuCluster()
	slice := gpuSlice("node", len(w.devices))
	spec := simulate.TemplateSpec{Node: nodeNamed("node"), Slices: []*resourceapi.ResourceSlice{slice}}
	for _, group := range []string{"?0", "?1"} {
		equal := simulate.Equal{Attribute: root}
		for _, d := range w.devices {
			if d.value == group {
				equal.Devices = append(equal.Devices, pools.DeviceID{Driver: "gpu.example.com", Pool: "node", Device: d.name})
			}
		}
		if len(equal.Devices) > 0 {
			spec.Equal = append(spec.Equal, equal)
		}
	}
	for i, d := range w.devices {
		if d.value != "" && !d.unknown() {
			slice.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"root": {StringValue: ptr.To(d.value)}}
		}
	}
	template := gpuTemplate("rooted", 1)
	claim := &template.Spec.Spec.Devices
	claim.Requests = nil
	for i, r := range w.requests {
		exact := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(r.count)}
		if r.selector != "" {
			exact.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: r.selector}}}
		}
		claim.Requests = append(claim.Requests, resourceapi.DeviceRequest{Name: fmt.Sprint("r", i), Exactly: exact})
	}
	names := func(covered []int) []string {
		var list []string
		for _, r := range slices.Compact(covered) {
			list = append(list, fmt.Sprint("r", r))
		}
		return list
	}
	if w.match != nil {
		claim.Constraints = append(claim.Constraints, resourceapi.DeviceConstraint{Requests: names(w.match), MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(root))})
	}
	if w.distinct != nil {
		claim.Constraints = append(claim.Constraints, resourceapi.DeviceConstraint{Requests: names(w.distinct), DistinctAttribute: ptr.To(resourceapi.FullyQualifiedName(root))})
	}
	c.Templates = append(c.Templates, template)
	return c, spec
}

// With groups of devices whose values are not known, a pod gets the first devices that brute force finds,
// by the rules as they are stated, and whatever the values turn out to be, its claim is satisfied.
func TestEqualLikeBruteForce(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(1500) {
		w := newRootWorld(rand.New(rand.NewPCG(seed, 46)))
		c, spec := w.objects()
		state := open(t, c, simulate.Options{})
		template, err := state.Template(spec)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		sim, want := state.Sim(), w.first()
		r, err := sim.Place(t.Context(), gpuPods("rooted", 1)[0], simulate.New(template, 1), simulate.FirstFit)
		if err != nil || r.Undecided > 0 || r.All() != (want != nil) {
			t.Fatalf("seed %d: %+v: placed %d, %d undecided (%v), %v; by brute force: %v", seed, w, r.Placed, r.Undecided, r.Err, err, want)
		}
		for placement := range r.Placements() {
			claims, err := placement.Claims(t.Context())
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			var got, of []int
			for _, result := range claims[0].Status.Allocation.Devices.Results {
				got = append(got, slices.IndexFunc(w.devices, func(d rooted) bool { return d.name == result.Device }))
				of = append(of, int(result.Request[1]-'0'))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: %+v: devices %v, by brute force %v", seed, w, got, want)
			}
			w.anyValues(t, seed, got, of)
			seen["placed"]++
			if slices.ContainsFunc(got, func(d int) bool { return w.devices[d].unknown() }) && w.match != nil {
				seen["matched unknown"]++
			}
		}
		if !r.All() {
			seen["unfit"]++
		}
	}
	for _, kind := range []string{"placed", "matched unknown", "unfit"} {
		if seen[kind] < 50 {
			t.Errorf("too few worlds with: %s; seen: %v", kind, seen)
		}
	}
}

// anyValues checks a choice for all values that the groups may turn out to have.
func (w *rootWorld) anyValues(t *testing.T, seed uint64, chosen, request []int) {
	t.Helper()
	values := []string{"x", "y", "z"}
	for _, zero := range values {
		for _, one := range values {
			value := func(d rooted) string {
				switch d.value {
				case "?0":
					return zero
				case "?1":
					return one
				}
				return d.value
			}
			if !w.satisfies(chosen, request, value, true) {
				t.Fatalf("seed %d: %+v: devices %v are of no use once the groups have %s and %s", seed, w, chosen, zero, one)
			}
		}
	}
}

// A selector that reads what is not known is named as the reason, and not as one that fails.
func TestEqualWhy(t *testing.T) {
	w := &rootWorld{devices: []rooted{{"gpu-0", "?0"}, {"gpu-1", "?0"}}, requests: []rootRequest{{1, `device.attributes["gpu.example.com"].root == "x"`}}}
	c, spec := w.objects()
	state := open(t, c, simulate.Options{})
	template, err := state.Template(spec)
	if err != nil {
		t.Fatal(err)
	}
	r, err := state.Sim().Place(t.Context(), gpuPods("rooted", 1)[0], simulate.New(template, 1), simulate.FirstFit)
	if err != nil || r.Unfit != 1 {
		t.Fatalf("%d do not fit, %d undecided, %v; want it refused", r.Unfit, r.Undecided, err)
	}
	refusals, err := r.Why(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rejections := refusals[0].Devices[0].Closest.Requests[0].Rejections
	if len(rejections) != 1 || rejections[0].Reason != explain.RejectedByUnknown || rejections[0].Devices != 2 ||
		rejections[0].Phrase() != "of which a value is unknown: gpu.example.com/root, which selector 0 reads" {
		t.Errorf("rejected: %+v", rejections)
	}
	if text := refusals[0].String(); !strings.Contains(text, "unknown") {
		t.Errorf("nobody reads of it: %s", text)
	}
	// What the API server would hold knows nothing of stand-ins.
	_, published := template.Nodes(3)
	if _, has := published[0].Spec.Devices[0].Attributes[root]; has {
		t.Error("the slices of the node have a value that is not known")
	}
}

// Mistakes name the entry and the device.
func TestEqualErrors(t *testing.T) {
	state := open(t, gpuCluster(), simulate.Options{})
	id := func(name string) []pools.DeviceID {
		return []pools.DeviceID{{Driver: "gpu.example.com", Pool: "node", Device: name}}
	}
	for want, equal := range map[string][]simulate.Equal{
		`template node: equal 0: attribute "root": want domain/name`:                                                                          {{Attribute: "root", Devices: id("gpu-0")}},
		`template node: equal 0: attribute "/root": want domain/name`:                                                                         {{Attribute: "/root", Devices: id("gpu-0")}},
		`template node: equal 0: attribute "gpu.example.com/": want domain/name`:                                                              {{Attribute: "gpu.example.com/", Devices: id("gpu-0")}},
		"template node: equal 0: there is no device":                                                                                          {{Attribute: root}},
		"template node: equal 1: device gpu.example.com/node/gpu-9: no slice of the template has it":                                          {{Attribute: root, Devices: id("gpu-0")}, {Attribute: root, Devices: id("gpu-9")}},
		"template node: equal 1: device gpu.example.com/node/gpu-0: attribute gpu.example.com/root is equal to that of other devices already": {{Attribute: root, Devices: id("gpu-0")}, {Attribute: root, Devices: id("gpu-0")}},
		"template node: equal 0: device gpu.example.com/node/gpu-0: attribute gpu.example.com/size has a value":                               {{Attribute: "gpu.example.com/size", Devices: id("gpu-0")}},
	} {
		slice := gpuSlice("node", 2)
		slice.Spec.Devices[0].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"size": {IntValue: ptr.To(int64(1))}}
		_, err := state.Template(simulate.TemplateSpec{Node: nodeNamed("node"), Slices: []*resourceapi.ResourceSlice{slice}, Equal: equal})
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if len(slice.Spec.Devices[0].Attributes) != 1 {
			t.Error("the slice of the caller was changed")
		}
	}
}

// Devices that a node is expected to have are not known either, until its driver publishes them.
func TestEqualExpected(t *testing.T) {
	w := &rootWorld{devices: []rooted{{"gpu-0", "?0"}, {"gpu-1", "?0"}, {"gpu-2", "?1"}}, requests: []rootRequest{{2, ""}}, match: []int{0}}
	c, spec := w.objects()
	c.Nodes = append(c.Nodes, nodeNamed("ordered"))
	state := open(t, c, simulate.Options{})
	template, err := state.Template(spec)
	if err != nil {
		t.Fatal(err)
	}
	sim := state.Sim()
	if err := sim.Expect("ordered", template); err != nil {
		t.Fatal(err)
	}
	pair := shapeOf(t, state, gpuPods("rooted", 1))
	if found := fit(t, sim.State(), pair, simulate.Real(nil)); found.Pods != 1 {
		t.Errorf("%d pairs fit, want that of one root", found.Pods)
	}
	// A gang in one domain of the attribute would have to know the value.
	r, err := sim.Gang(t.Context(), []simulate.Demand{{Shape: pair, Count: 1}}, []simulate.Topology{{DeviceAttribute: root}}, simulate.Real(nil), simulate.FirstFit)
	if err != nil || r.Unfit != 1 {
		t.Errorf("%d do not fit, %v; want no domain", r.Unfit, err)
	}
	next, err := sim.State().Update(simulate.Cluster{Nodes: c.Nodes, Classes: c.Classes, Templates: c.Templates, Slices: []*resourceapi.ResourceSlice{gpuSlice("ordered", 2)}})
	if err != nil {
		t.Fatal(err)
	}
	if found := fit(t, next, pair, simulate.Real(nil)); found.Pods != 0 {
		t.Errorf("%d pairs fit though the driver published no attribute", found.Pods)
	}
}

// A node whose values are known may look like one of which they are not; what is said of one does not
// hold for the other.
func TestEqualIsNotLikeKnown(t *testing.T) {
	w := &rootWorld{devices: []rooted{{"gpu-0", "?0"}, {"gpu-1", "?1"}}, requests: []rootRequest{{2, ""}}, distinct: []int{0}}
	c, spec := w.objects()
	known := gpuSlice("known", 2)
	for d, value := range []string{"x", "y"} {
		known.Spec.Devices[d].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{root: {StringValue: &value}}
	}
	c.Nodes, c.Slices = append(c.Nodes, nodeNamed("known")), append(c.Slices, known)
	state := open(t, c, simulate.Options{})
	template, err := state.Template(spec)
	if err != nil {
		t.Fatal(err)
	}
	pair := shapeOf(t, state, gpuPods("rooted", 1))
	if found := fit(t, state, pair, simulate.Real(nil)); found.Pods != 1 {
		t.Errorf("%d pods fit where values are known, want 1", found.Pods)
	}
	if found := fit(t, state, pair, simulate.New(template, 1)); found.Pods != 0 {
		t.Errorf("%d pods fit where values are not known, want none", found.Pods)
	}
}
