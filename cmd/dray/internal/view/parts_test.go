// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/input"
)

// several has a claim that two pods share, a pod of a DaemonSet with a claim of its own, partitions, and taints that keep nobody away.
const several = `
{apiVersion: v1, kind: Node, metadata: {name: n1}}
---
{apiVersion: v1, kind: Node, metadata: {name: m}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1}
spec:
  driver: gpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: d0}
  - {name: d1}
  - {name: noted, taints: [{key: noted, effect: None}]}
  - {name: sick, taints: [{key: noted, effect: None}, {key: sick, effect: NoSchedule}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: counters}
spec: {driver: part.example.com, nodeName: n1, pool: {name: p, generation: 1, resourceSliceCount: 2}, sharedCounters: [{name: s, counters: {memory: {value: 80Gi}, slices: {value: 7}}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: parts}
spec:
  driver: part.example.com
  nodeName: n1
  pool: {name: p, generation: 1, resourceSliceCount: 2}
  devices:
  - {name: half, consumesCounters: [{counterSet: s, counters: {memory: {value: 40Gi}, slices: {value: 7}}}]}
  - {name: large, consumesCounters: [{counterSet: s, counters: {memory: {value: 80Gi}}}]}
  - {name: whole, consumesCounters: [{counterSet: s, counters: {memory: {value: 80Gi}, slices: {value: 7}}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared, namespace: default, uid: c0}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: none}}]}}
status:
  allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: n1, device: d0}]}}
  reservedFor: [{resource: pods, name: p, uid: p0}, {resource: pods, name: q, uid: p1}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: agent, namespace: default, uid: c1}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: none}}]}}
status:
  allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: n1, device: d1}]}}
  reservedFor: [{resource: pods, name: agent-x, uid: p2}]
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default, uid: p0}
spec: {nodeName: n1, containers: [{name: c, image: x}], resourceClaims: [{name: c, resourceClaimName: shared}]}
---
apiVersion: v1
kind: Pod
metadata: {name: q, namespace: default, uid: p1}
spec: {nodeName: n1, containers: [{name: c, image: x}], resourceClaims: [{name: c, resourceClaimName: shared}]}
---
apiVersion: v1
kind: Pod
metadata: {name: agent-x, namespace: default, uid: p2, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: d, controller: true}]}
spec: {nodeName: n1, containers: [{name: c, image: x}], resourceClaims: [{name: c, resourceClaimName: agent}]}
`

// severalSource is a source of it.
func severalSource(t *testing.T) *Source {
	t.Helper()
	s := sourceOf(t, "single-gpu")
	objects, err := input.Read([]string{input.Stdin}, strings.NewReader(several), input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
	return s
}

// stateIn is the state of a device after a what-if.
func (s *Source) stateIn(t *testing.T, change Change, pool, device string) (state string, after *Picture) {
	t.Helper()
	outcome, err := s.WhatIf(t.Context(), &change)
	if err != nil {
		t.Fatal(err)
	}
	after = s.after(fmt.Sprint(outcome.Number))
	for i := range after.Pools {
		for k := range after.Pools[i].Devices {
			if d := &after.Pools[i].Devices[k]; after.Pools[i].Name == pool && d.Name == device {
				return d.State, after
			}
		}
	}
	t.Fatalf("there is no device %s/%s", pool, device)
	return "", nil
}

// The tooltip of a device names its holder once, and other problems of the device.
func TestTooltipOfDevice(t *testing.T) {
	device := &Device{Name: "gpu-0", State: "in use", Held: []Held{{Claim: "ml/a"}, {Claim: "ml/a"}, {Claim: "ml/b"}}, Taints: []string{"x:NoSchedule", "y:None"}}
	if got, want := tip(&Pool{Problem: "the pool is incomplete"}, device), "gpu-0: in use, held by ml/a, ml/b; the pool is incomplete; x:NoSchedule, y:None"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A group of its own kind is none that a picture has, and nothing panics.
func TestGroupOfPod(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Namespace = "ml"
	if got := groupOf(pod); got != "" {
		t.Errorf("without a group: %q", got)
	}
	pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{}
	if got := groupOf(pod); got != "" {
		t.Errorf("with a group without a name: %q", got)
	}
	name := "gang"
	pod.Spec.SchedulingGroup.PodGroupName = &name
	if got := groupOf(pod); got != "ml/gang" {
		t.Errorf("got %q", got)
	}
}

// A claim is held until its last pod goes; pods of a DaemonSet stay on a node that is drained, others wait.
func TestPodsThatGo(t *testing.T) {
	s := severalSource(t)
	if state, _ := s.stateIn(t, Change{Remove: []string{"default/p"}}, "n1", "d0"); state != Used {
		t.Errorf("a device that another pod uses is %s", state)
	}
	if state, _ := s.stateIn(t, Change{Remove: []string{"default/p", "default/q"}}, "n1", "d0"); state != Free {
		t.Errorf("a device that no pod uses is %s", state)
	}
	state, after := s.stateIn(t, Change{Drain: []string{"n1"}}, "n1", "d1")
	if state != Used {
		t.Errorf("the device of a DaemonSet's pod is %s", state)
	}
	var waiting []string
	for _, w := range after.Waiting {
		waiting = append(waiting, w.Name)
	}
	if want := []string{"p", "q"}; !slices.Equal(waiting, want) {
		t.Errorf("%q wait, want %q", waiting, want)
	}
}

// States and wholes are those of what devices say.
func TestParts(t *testing.T) {
	p := severalSource(t).Picture()
	for _, test := range []struct{ pool, device, want string }{{"n1", "noted", Free}, {"n1", "sick", Tainted}, {"n1", "d0", Used}, {"p", "half", Free}} {
		for i := range p.Pools {
			for k := range p.Pools[i].Devices {
				if d := &p.Pools[i].Devices[k]; p.Pools[i].Name == test.pool && d.Name == test.device && d.State != test.want {
					t.Errorf("%s is %s, want %s", d.Name, d.State, test.want)
				}
			}
		}
	}
	for i := range p.Pools {
		for k := range p.Pools[i].Devices {
			if d := &p.Pools[i].Devices[k]; p.Pools[i].Name == "p" && !slices.Equal(d.Sets, []int{0}) {
				t.Errorf("%s is a part of the sets %v, want the first", d.Name, d.Sets)
			}
		}
		for _, set := range p.Pools[i].Sets {
			if whole := p.Pools[i].Devices[set.Whole].Name; whole != "whole" {
				t.Errorf("the whole of set %s is %s", set.Name, whole)
			}
		}
	}
}

// What-ifs of one picture do not see each other, and nothing new is told when nothing has changed.
func TestPicturesApart(t *testing.T) {
	s := severalSource(t)
	revision := s.Picture().Revision
	if err := s.Update(t.Context(), s.objects); err != nil || s.Picture().Revision != revision {
		t.Errorf("revision %d after %d, error %v: nothing has changed", s.Picture().Revision, revision, err)
	}
	more := Change{YAML: "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: more}\nspec: {driver: new.example.com, nodeName: m, pool: {name: more, generation: 1, resourceSliceCount: 1}, devices: [{name: d, attributes: {model: {string: X1}}}]}\n"}
	for range 2 {
		_, after := s.stateIn(t, more, "more", "d")
		for i := range after.Pools {
			for k := range after.Pools[i].Devices {
				if d := &after.Pools[i].Devices[k]; d.Shape >= len(after.Shapes) || d.Name == "d" && after.Shapes[d.Shape].Product != "X1" {
					t.Errorf("device %s has the shape %d of %d", d.Name, d.Shape, len(after.Shapes))
				}
			}
		}
	}
	before, fewer := s.Picture(), *s.objects
	fewer.Nodes = slices.DeleteFunc(slices.Clone(fewer.Nodes), func(n *corev1.Node) bool { return n.Name == "m" })
	if err := s.Update(t.Context(), &fewer); err != nil {
		t.Fatal(err)
	}
	if gone, said := Compare(before, s.Picture()).Nodes["m"]; !said || gone != nil {
		t.Errorf("what is said of a node that is gone: %t, %v", said, gone)
	}
	if _, err := s.WhatIf(t.Context(), &Change{Add: map[string]int{"n1": 0}}); err != nil {
		t.Errorf("no node is added: %v", err)
	}
	if _, err := s.WhatIf(t.Context(), &Change{Add: map[string]int{"n1": 600, "n2": 600}}); err == nil || !strings.Contains(err.Error(), "add 600 nodes like n2: want 0 to 1000 in all") {
		t.Errorf("1,200 nodes: error %v", err)
	}
}

// Names are escaped in the drawing, whatever they contain.
func TestNamesAreEscapedInDrawing(t *testing.T) {
	objects, err := input.Read([]string{input.Stdin}, strings.NewReader(strings.NewReplacer("name: n1}", `name: "<b>&\u202en"}`, "nodeName: n1\n", "nodeName: \"<b>&\\u202en\"\n", "name: d0}", `name: "<script>"}`).Replace(several)), input.Options{Findings: input.FindingsIgnore})
	if err != nil {
		t.Fatal(err)
	}
	var drawing bytes.Buffer
	if err := WriteSVG(&drawing, pictureOf(t, objects)); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(drawing.Bytes(), new(struct{ XMLName xml.Name })); err != nil {
		t.Error(err)
	}
	for _, markup := range []string{"<b>", "<script>", "\u202e"} {
		if strings.Contains(drawing.String(), markup) {
			t.Errorf("%q is in the drawing", markup)
		}
	}
	if !strings.Contains(drawing.String(), "&lt;script&gt;") {
		t.Error("the name is not in the drawing")
	}
}

// The kind of a node has its four most frequent products, counts the others, and has no parts of whole devices.
func TestKindOfNode(t *testing.T) {
	for products, want := range map[string]string{
		"":              noDevices,
		"a":             "1 × a",
		"a b b":         "2 × b, 1 × a",
		"d c b a":       "1 × a, 1 × b, 1 × c, 1 × d",
		"a b c d e e":   "2 × e, 1 × a, 1 × b, 1 × c, 1 other kind",
		"a b c d e f f": "2 × f, 1 × a, 1 × b, 1 × c, 2 other kinds",
	} {
		p := &Picture{Pools: make([]Pool, 2)}
		for i, product := range strings.Fields(products) {
			p.Shapes = append(p.Shapes, Shape{Product: product})
			pool := &p.Pools[i%2]
			pool.Devices = append(pool.Devices, Device{Shape: i})
		}
		if got := p.kindOf(&Node{pools: []int{0, 1}}); got != want {
			t.Errorf("%q: %q, want %q", products, got, want)
		}
	}
	parts := &Picture{Shapes: []Shape{{Product: "whole"}, {Product: "part"}}, Pools: []Pool{{
		Sets: []Set{{Whole: 0}, {Whole: -1}}, Devices: []Device{{Shape: 0, Sets: []int{0}}, {Shape: 1, Sets: []int{0}}, {Shape: 1, Sets: []int{1}}},
	}}}
	if got, want := parts.kindOf(&Node{pools: []int{0}}), "1 × part, 1 × whole"; got != want {
		t.Errorf("with parts: %q, want %q", got, want)
	}
}

// The part that is left is between none and all, whatever the amounts are.
func TestPartOfAmount(t *testing.T) {
	for _, test := range []struct {
		left, total string
		want        float64
	}{{"5Gi", "10Gi", 0.5}, {"10", "10", 1}, {"0", "10", 0}, {"12", "10", 1}, {"-2", "10", 0}, {"1", "0", 0}, {"1", "-1", 0}} {
		if got := part(resource.MustParse(test.left), resource.MustParse(test.total)); got != test.want {
			t.Errorf("%s of %s: %v, want %v", test.left, test.total, got, test.want)
		}
	}
}

// Of counters and capacities, the page gets what is left, as quantities and as a part of all.
func TestAmounts(t *testing.T) {
	of := func(name, left, total string) cluster.AmountState {
		return cluster.AmountState{Name: name, Left: resource.MustParse(left), Total: resource.MustParse(total)}
	}
	got := amounts([]cluster.AmountState{of("memory", "20Gi", "80Gi"), of("none", "0", "0"), of("overdrawn", "-1", "4"), of("more", "5", "4")})
	want := []Amount{{"memory", "20Gi", "80Gi", 0.25}, {"none", "0", "0", 0}, {"overdrawn", "-1", "4", 0}, {"more", "5", "4", 1}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := amounts(nil); len(got) > 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// TestAttributesWithManyValues: an attribute with so many values that each device has its own is no part of shapes.
func TestAttributesWithManyValues(t *testing.T) {
	pool := cluster.PoolState{}
	for i := range manyValues + 1 {
		device := cluster.DeviceState{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"serial": {IntValue: ptr.To(int64(i % manyValues))}, "model": {IntValue: ptr.To(int64(i % (manyValues - 1)))},
		}}
		pool.Devices = append(pool.Devices, device)
	}
	shapes := newShapes([]cluster.PoolState{pool})
	if !shapes.own["serial"] || shapes.own["model"] {
		t.Errorf("with %d values: %t, with one fewer: %t", manyValues, shapes.own["serial"], shapes.own["model"])
	}
}
