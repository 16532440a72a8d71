// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package gang_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/gang"
	"github.com/dray-project/dray/pools"
)

// rails are nodes with one device for each of some attributes.
func rails(attributes ...[]resourceapi.DeviceAttribute) gang.Question {
	var slices []*resourceapi.ResourceSlice
	var q gang.Question
	for n, devices := range attributes {
		node := &corev1.Node{}
		node.Name = fmt.Sprint("node-", n)
		q.Nodes = append(q.Nodes, node)
		slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: ptr.To(node.Name), Pool: resourceapi.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 1},
		}}
		slice.Name = node.Name
		for i, a := range devices {
			device := resourceapi.Device{Name: fmt.Sprint("device-", i)}
			if !reflect.ValueOf(a).IsZero() {
				device.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"rail": a}
			}
			slice.Spec.Devices = append(slice.Spec.Devices, device)
		}
		slices = append(slices, slice)
	}
	core := allocator.New(allocator.Options{Features: allocator.AllFeatures()})
	q.Compile = func(claims []*resourceapi.ResourceClaim) (*allocator.Problem, error) {
		return core.Compile(claims, allocator.ClassMap(gpuClass()))
	}
	q.State = pools.NewState(pools.Build(allocator.AllFeatures().PoolGates(), slices))
	return q
}

// withPods asks for so many pods with one device each.
func withPods(q gang.Question, pods int) gang.Question {
	for i := range pods {
		claim := &resourceapi.ResourceClaim{}
		claim.Namespace, claim.Name = "default", fmt.Sprint("claim-", i)
		claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpu", Count: 1, AllocationMode: resourceapi.DeviceAllocationModeExactCount,
		}}}
		q.Pods = append(q.Pods, gang.Pod{Kind: "pod", Variants: [][]*resourceapi.ResourceClaim{{claim}}})
	}
	return q
}

func devicesIn(r *gang.Result) string {
	var list []string
	for _, place := range r.Places {
		for _, claim := range place.Claims {
			result := claim.Status.Allocation.Devices.Results[0]
			list = append(list, result.Pool+"/"+result.Device)
			if len(claim.Spec.Devices.Requests[0].Exactly.Selectors) > 0 {
				list = append(list, "with a selector that the claim did not have")
			}
		}
	}
	return strings.Join(list, " ")
}

type attribute = resourceapi.DeviceAttribute

func number(n int64) attribute      { return attribute{IntValue: &n} }
func text(s string) attribute       { return attribute{StringValue: &s} }
func version(s string) attribute    { return attribute{VersionValue: &s} }
func truth(b bool) attribute        { return attribute{BoolValue: &b} }
func texts(s ...string) attribute   { return attribute{StringValues: s} }
func numbered(n ...int64) attribute { return attribute{IntValues: n} }

const rail = "gpu.example.com/rail"

var match = extension.Group{Constraints: []extension.GroupMatch{{MatchAttribute: rail}}}

func most(n int64) extension.Group {
	return extension.Group{MaxDistinct: []extension.DistinctLimit{{Attribute: rail, Most: n}}}
}

// Values can have any type, alone or in lists. Types are kept apart, and texts are not evaluated as expressions.
func TestValuesInCommon(t *testing.T) {
	type node = []attribute
	for _, test := range []struct {
		name    string
		nodes   []node
		group   extension.Group
		want    string
		domain  string
		verdict allocator.Verdict
	}{
		{"numbers", []node{{number(-1), number(2)}, {number(2)}}, match, "node-0/device-1 node-1/device-0", "2", allocator.Satisfiable},
		{"texts", []node{{text("a\"é\n"), text("b")}, {text("a\"é\n")}}, match, "node-0/device-0 node-1/device-0", `"a\"\u00e9\n"`, allocator.Satisfiable},
		{"versions", []node{{version("1.0.0"), version("1.2.3")}, {version("1.2.3")}}, match, "node-0/device-1 node-1/device-0", `semver("1.2.3")`, allocator.Satisfiable},
		{"truth", []node{{truth(true)}, {truth(false), truth(true)}}, match, "node-0/device-0 node-1/device-1", "true", allocator.Satisfiable},
		{"other types", []node{{text("1")}, {number(1)}, {version("1.0.0")}, {text("true")}, {truth(true)}}, match, "", "", allocator.NotSatisfiable},
		{"lists", []node{{texts("a", "b"), texts("x")}, {texts("c", "b")}}, match, "node-0/device-0 node-1/device-0", `"b"`, allocator.Satisfiable},
		{"a list and one", []node{{numbered(1, 2)}, {number(2)}}, match, "node-0/device-0 node-1/device-0", "2", allocator.Satisfiable},
		{"without", []node{{attribute{}, number(1)}, {attribute{}, attribute{}}}, match, "", "", allocator.NotSatisfiable},
		{"two values at most", []node{{number(1)}, {number(2)}, {number(3)}}, most(2), "node-0/device-0 node-1/device-0", "1 2", allocator.Satisfiable},
		{"all of a list count", []node{{numbered(1, 2, 3)}, {numbered(3, 2)}, {number(3)}}, most(2), "node-1/device-0 node-2/device-0", "2 3", allocator.Satisfiable},
		{"a list is more than one", []node{{numbered(1, 2)}, {numbered(1, 2)}}, most(1), "", "", allocator.NotSatisfiable},
		{"fewer values than may be", []node{{text("a")}, {text("a")}}, most(5), "node-0/device-0 node-1/device-0", `"a"`, allocator.Satisfiable},
		{"no devices", nil, match, "", "", allocator.NotSatisfiable},
	} {
		q := withPods(rails(test.nodes...), 2)
		q.Group = test.group
		r := ask(t, q)
		domain := ""
		if len(r.Domain) > 0 && r.Verdict == allocator.Satisfiable {
			domain = strings.Join(r.Domain[0].Values, " ")
		}
		if r.Verdict != test.verdict || r.Exact != (test.verdict == allocator.NotSatisfiable) || test.want != "" && (devicesIn(r) != test.want || domain != test.domain) {
			t.Errorf("%s: %v (exact %v), %s in %s", test.name, r.Verdict, r.Exact, devicesIn(r), domain)
		}
	}
}

// held is an allocated claim for a device of a node.
func held(at int, device string) *resourceapi.ResourceClaim {
	claim := withPods(gang.Question{}, 1).Pods[0].Variants[0][0]
	claim.Name, claim.UID = "held-"+device, "held"
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: fmt.Sprint("node-", at), Device: device}},
	}}
	return claim
}

// Pods that are added later have values in common with those that have a place.
func TestPodsJoinTheDomain(t *testing.T) {
	nodes := [][]attribute{{number(1), number(1), number(2)}, {number(2), number(3)}, {number(3), attribute{}}}
	for _, test := range []struct {
		name   string
		group  extension.Group
		at     int
		device string
		pods   int
		want   string
	}{
		{"match", match, 1, "device-0", 1, "node-0/device-2"},
		{"match, no more of it", match, 1, "device-0", 2, ""},
		{"another request is bound", extension.Group{Constraints: []extension.GroupMatch{{MatchAttribute: rail, Requests: []string{"nic"}}}}, 1, "device-0", 2, "node-0/device-0 node-0/device-1"},
		{"two values", most(2), 1, "device-1", 3, "node-0/device-0 node-0/device-1 node-2/device-0"},
		{"preferred", extension.Group{Preferred: match.Constraints}, 1, "device-0", 1, "node-0/device-2"},
		{"preferred, no more of it", extension.Group{Preferred: match.Constraints}, 1, "device-0", 2, "node-0/device-0 node-0/device-1"},
		{"a device has no value", most(2), 2, "device-1", 1, ""},
		{"the device has gone", match, 1, "device-9", 2, "node-0/device-0 node-0/device-1"},
	} {
		q := withPods(rails(nodes...), test.pods)
		q.Group, q.Held = test.group, []*resourceapi.ResourceClaim{held(test.at, test.device)}
		var err error
		if q.State, err = q.State.Assume(q.Held[0]); err != nil {
			t.Fatal(err)
		}
		if r := ask(t, q); (r.Verdict == allocator.Satisfiable) != (test.want != "") || test.want != "" && devicesIn(r) != test.want {
			t.Errorf("%s: %v, %s in %v", test.name, r.Verdict, devicesIn(r), r.Domain)
		}
	}
}

// What held devices have in common is nil if there are none, and empty if they do not agree.
func TestHeldInCommon(t *testing.T) {
	q := rails([]attribute{number(1), number(2)}, []attribute{number(2), {}})
	one, two, other, none, gone := held(0, "device-0"), held(0, "device-1"), held(1, "device-0"), held(1, "device-1"), held(1, "device-9")
	open := withPods(q, 1).Pods[0].Variants[0][0]
	for name, test := range map[string]struct {
		claims   []*resourceapi.ResourceClaim
		requests []string
		want     []string
	}{
		"nothing":           {nil, nil, nil},
		"not allocated":     {[]*resourceapi.ResourceClaim{open}, nil, nil},
		"gone":              {[]*resourceapi.ResourceClaim{gone}, nil, nil},
		"another request":   {[]*resourceapi.ResourceClaim{one}, []string{"nic"}, nil},
		"one":               {[]*resourceapi.ResourceClaim{one, open, gone}, []string{"gpu"}, []string{"1"}},
		"two that agree":    {[]*resourceapi.ResourceClaim{two, other}, nil, []string{"2"}},
		"two that do not":   {[]*resourceapi.ResourceClaim{one, other}, nil, []string{}},
		"one has no value":  {[]*resourceapi.ResourceClaim{two, none}, nil, []string{}},
		"the only one, too": {[]*resourceapi.ResourceClaim{none}, nil, []string{}},
	} {
		if got := gang.HeldInCommon(q.State.Snapshot(), test.claims, rail, test.requests); !slices.Equal(got, test.want) || (got == nil) != (test.want == nil) {
			t.Errorf("%s: %#v, want %#v", name, got, test.want)
		}
	}
}

// A pod whose claims are all allocated has a place only if the devices of the group agree, its own included.
func TestHeldDevicesThatDoNotAgree(t *testing.T) {
	nodes := [][]attribute{{number(1), number(2)}, {number(2), attribute{}}}
	for _, test := range []struct {
		name  string
		group extension.Group
		held  []*resourceapi.ResourceClaim
		fits  bool
	}{
		{"nothing is held", match, nil, true},
		{"one value", match, []*resourceapi.ResourceClaim{held(0, "device-1"), held(1, "device-0")}, true},
		{"two values", match, []*resourceapi.ResourceClaim{held(0, "device-0"), held(1, "device-0")}, false},
		{"no value", match, []*resourceapi.ResourceClaim{held(1, "device-1")}, false},
		{"two of two values", most(2), []*resourceapi.ResourceClaim{held(0, "device-0"), held(1, "device-0")}, true},
		{"two of one value", most(1), []*resourceapi.ResourceClaim{held(0, "device-0"), held(1, "device-0")}, false},
		{"a limit, and no value", most(2), []*resourceapi.ResourceClaim{held(1, "device-1")}, false},
		{"preferred", extension.Group{Preferred: match.Constraints}, []*resourceapi.ResourceClaim{held(0, "device-0"), held(1, "device-0")}, true},
	} {
		q := rails(nodes...)
		q.Pods = []gang.Pod{{Variants: [][]*resourceapi.ResourceClaim{nil}}}
		q.Group, q.Held = test.group, test.held
		if r := ask(t, q); (r.Verdict == allocator.Satisfiable) != test.fits || r.Verdict == allocator.NotDecided {
			t.Errorf("%s: %v", test.name, r.Verdict)
		}
	}
}

// If a group may leave out pods that share a claim, a no is not proven.
func TestNoIsNotProvenWithSharedClaims(t *testing.T) {
	for _, test := range []struct {
		shared, all bool
	}{{false, false}, {false, true}, {true, false}, {true, true}} {
		q := withPods(rails([]attribute{number(1)}), 3)
		if q.Min = 2; test.all {
			q.Min = 3
		}
		if test.shared {
			q.Pods[1] = q.Pods[0]
		}
		for i := range q.Pods {
			for _, claim := range q.Pods[i].Variants[0] {
				claim.Spec.Devices.Requests[0].Exactly.Count = 2
			}
		}
		if r := ask(t, q); r.Verdict != allocator.NotSatisfiable || r.Exact != (!test.shared || test.all) {
			t.Errorf("%+v: %v, exact %v", test, r.Verdict, r.Exact)
		}
	}
}

// Nodes are named by their positions in the question, also in the limits of the caller.
func TestDomainKeepsPositions(t *testing.T) {
	q := withPods(rails([]attribute{number(1)}, []attribute{number(2)}, []attribute{number(2)}, []attribute{number(2)}), 2)
	q.Group = match
	asked := make(map[int]bool)
	for i := range q.Pods {
		q.Pods[i].Variant = func(node int) int {
			asked[node] = true
			return map[bool]int{true: -1, false: 0}[node == 1]
		}
	}
	q.Room = func(node int, _ []int) bool { return node != 0 }
	r := ask(t, q)
	if devicesIn(r) != "node-2/device-0 node-3/device-0" || r.Places[0].Node != 2 || r.Places[1].Node != 3 || !asked[1] {
		t.Errorf("%v: %s, %+v", r.Verdict, devicesIn(r), r.Places)
	}
}

// A preference costs no pod its place, and the first of several comes first.
func TestPreferences(t *testing.T) {
	q := withPods(rails([]attribute{number(1), number(2)}, []attribute{number(2)}, []attribute{number(3)}), 3)
	q.Group, q.Min = extension.Group{Preferred: match.Constraints}, 2
	if r := ask(t, q); r.Placed() != 3 || len(r.Domain) != 0 {
		t.Errorf("%d pods are placed in %v", r.Placed(), r.Domain)
	}
	q.Pods = q.Pods[:2]
	if r := ask(t, q); devicesIn(r) != "node-0/device-1 node-1/device-0" {
		t.Errorf("%s in %v", devicesIn(r), r.Domain)
	}
}

// The number of sets of values has no bound but the budget: then the answer is not known. Values with too few devices cost next to nothing,
// and the longest texts make no expression that is too long.
func TestManyDomains(t *testing.T) {
	var nodes [][]attribute
	for n := range 40 {
		nodes = append(nodes, []attribute{number(int64(n))})
	}
	q := withPods(rails(nodes...), 9)
	q.Group, q.Budget = most(8), 5000
	if r := ask(t, q); r.Verdict != allocator.NotDecided || r.Exact || r.Placed() != 8 || r.Steps > 2*q.Budget {
		t.Errorf("%v after %d steps, %d placed", r.Verdict, r.Steps, r.Placed())
	}
	q.Budget = 0
	if r := ask(t, q); r.Verdict != allocator.NotDecided {
		t.Errorf("%v after %d steps", r.Verdict, r.Steps)
	}
	q.Group = match
	if r := ask(t, q); r.Verdict != allocator.NotSatisfiable || !r.Exact || r.Placed() != 1 || r.Steps > 1000 || slices.ContainsFunc(r.Domain, func(d gang.Domain) bool { return d.String() != rail+" = 0" }) {
		t.Errorf("%v (exact %v) after %d steps, %d placed in %v", r.Verdict, r.Exact, r.Steps, r.Placed(), r.Domain)
	}
	long := func(n int) attribute { return text(strings.Repeat("\x01", 62) + fmt.Sprintf("%02d", n)) }
	nodes = nil
	for n := range 40 {
		nodes = append(nodes, []attribute{long(n)})
	}
	q = withPods(rails(nodes...), 32)
	if q.Group = most(32); ask(t, q).Verdict != allocator.Satisfiable {
		t.Error("32 values of 64 characters are too many")
	}
}

// One value is enough for the pods that a group needs, and another one for all of its pods: that is looked for.
func TestDomainOfMostPods(t *testing.T) {
	q := withPods(rails([]attribute{number(1), number(2)}, []attribute{number(2)}), 2)
	q.Group, q.Min = match, 1
	if r := ask(t, q); r.Placed() != 2 || devicesIn(r) != "node-0/device-1 node-1/device-0" {
		t.Errorf("%d pods are placed: %s in %v", r.Placed(), devicesIn(r), r.Domain)
	}
}

// With OneByOne, the answer is that of placing one pod after the other, not of all together.
func TestOneByOneIsNotTogether(t *testing.T) {
	q := withPods(rails([]attribute{number(1), number(2)}), 2)
	q.Pods[1].Kind = "choosing"
	q.Pods[1].Variants[0][0].Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{
		{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].rail == 1`}},
	}
	if r := ask(t, q); r.Placed() != 2 {
		t.Fatalf("%d pods are placed together", r.Placed())
	}
	q.OneByOne = true
	if r := ask(t, q); r.Verdict != allocator.NotSatisfiable || r.Placed() != 1 {
		t.Errorf("one by one: %v, %d pods are placed", r.Verdict, r.Placed())
	}
}

// A pod of a kind goes where a claim is that it shares with another pod. The next pod of the kind, which shares none, can go elsewhere.
func TestSharedClaimSaysNothingOfOthers(t *testing.T) {
	q := withPods(rails([]attribute{number(1)}, []attribute{number(2)}), 3)
	q.OneByOne = true
	shared := q.Pods[1].Variants
	q.Pods[0] = gang.Pod{Kind: "on the second node", Variants: shared, Variant: func(node int) int { return node - 1 }}
	if q.Pods[1].Kind == "" || q.Pods[1].Kind != q.Pods[2].Kind {
		t.Fatal("the pods are of different kinds")
	}
	if r := ask(t, q); r.Verdict != allocator.Satisfiable || devicesIn(r) != "node-1/device-0 node-0/device-0" {
		t.Errorf("%v: %q", r.Verdict, devicesIn(r))
	}
}

// Pods with an empty kind may differ: what is known of one says nothing of the next one.
func TestEmptyKinds(t *testing.T) {
	for _, oneByOne := range []bool{false, true} {
		q := withPods(rails([]attribute{number(1)}, []attribute{number(2)}), 2)
		q.OneByOne = oneByOne
		for i, wanted := range []int{2, 1} {
			q.Pods[i].Kind = ""
			q.Pods[i].Variants[0][0].Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{
				{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf(`device.attributes["gpu.example.com"].rail == %d`, wanted)}},
			}
		}
		if r := ask(t, q); r.Placed() != 2 || r.Places[0].Node != 1 || r.Places[1].Node != 0 {
			t.Errorf("one by one: %t: %d pods are placed: %v", oneByOne, r.Placed(), r.Places)
		}
	}
}

// If the allocator is undecided on a node, the answer is not a no.
func TestUndecidedNode(t *testing.T) {
	for _, oneByOne := range []bool{false, true} {
		q := withPods(rails([]attribute{number(1), number(2), number(3)}), 1)
		q.OneByOne = oneByOne
		claim := q.Pods[0].Variants[0][0]
		claim.Spec.Devices.Requests[0].Exactly.Count = 2
		matched := resourceapi.FullyQualifiedName(rail)
		claim.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &matched}}
		if r := ask(t, q); r.Verdict != allocator.NotSatisfiable {
			t.Fatalf("with all steps it needs: %v", r.Verdict)
		}
		core := allocator.New(allocator.Options{Features: allocator.AllFeatures(), Budget: 1})
		q.Compile = func(claims []*resourceapi.ResourceClaim) (*allocator.Problem, error) {
			return core.Compile(claims, allocator.ClassMap(gpuClass()))
		}
		if r := ask(t, q); r.Verdict != allocator.NotDecided {
			t.Errorf("one by one: %t: %v", oneByOne, r.Verdict)
		}
	}
}

// An error on the only node that could do is kept, and is no no.
func TestErrorOnANode(t *testing.T) {
	for _, oneByOne := range []bool{false, true} {
		q := withPods(rails([]attribute{number(1)}), 1)
		q.OneByOne = oneByOne
		q.Pods[0].Variants[0][0].Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].missing == 1`}},
		}
		if r := ask(t, q); r.Verdict != allocator.NotDecided || r.Err == nil || !strings.Contains(r.Err.Error(), "missing") {
			t.Errorf("one by one: %t: %v, %v", oneByOne, r.Verdict, r.Err)
		}
	}
}
