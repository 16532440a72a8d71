// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cmd/dray/internal/input"
)

const manyNodes = `
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {disk: ssd}}, spec: {taints: [{key: t, effect: NoSchedule}]}, status: {allocatable: {cpu: "4"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: "4"}}}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {extendedResourceName: example.com/gpu}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: one, namespace: a}, spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: same, namespace: a}, spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: two, namespace: a}, spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 2}}]}}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: more, namespace: a}
spec: {metadata: {annotations: {dray-project.github.io/extension: '{"requests": {"r": {"classes": [{"deviceClassName": "gpu"}]}}}'}}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: named, namespace: a}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
`

// asking is a pod. What is asked for by other means than its name may make another question.
func asking(name, labels, spec, resources, claim string) string {
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: a, labels: {%s}}, spec: {%s containers: [{name: c, image: x, resources: {requests: {%s}}}], resourceClaims: [{name: g, %s}]}}\n",
		name, labels, spec, resources, claim)
}

// claimName has a suffix of its own for each pod and template.
var claimName = regexp.MustCompile(`claim a/[pq]-g-\w+`)

// A pod that asks for the same as one that was refused is refused like it, and no other pod is. Its
// answer is the one that it gets by itself.
func TestLike(t *testing.T) {
	const one = "resourceClaimTemplateName: one"
	first := asking("p", "", "", "cpu: 1", one)
	for name, test := range map[string]struct {
		pod  string
		like bool
	}{
		"equal but for labels":        {asking("q", "x: z", "", "cpu: 1", one), true},
		"another template, the same":  {asking("q", "", "", "cpu: 1", "resourceClaimTemplateName: same"), true},
		"another claim":               {asking("q", "", "", "cpu: 1", "resourceClaimTemplateName: two"), false},
		"an extension":                {asking("q", "", "", "cpu: 1", "resourceClaimTemplateName: more"), false},
		"a claim that there is":       {asking("q", "", "", "cpu: 1", "resourceClaimName: named"), false},
		"more cpu":                    {asking("q", "", "", "cpu: 5", one), false},
		"an extended resource":        {asking("q", "", "", "cpu: 1, example.com/gpu: 1", one), false},
		"a node selector":             {asking("q", "", "nodeSelector: {disk: ssd},", "cpu: 1", one), false},
		"tolerations":                 {asking("q", "", "tolerations: [{operator: Exists}],", "cpu: 1", one), false},
		"node affinity":               {asking("q", "", "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Exists}]}]}}},", "cpu: 1", one), false},
		"a scheduling gate":           {asking("q", "", "schedulingGates: [{name: g}],", "cpu: 1", one), false},
		"no required node affinity":   {asking("q", "", "affinity: {podAntiAffinity: {}},", "cpu: 1", one), true},
		"another name for its claims": {strings.Replace(asking("q", "", "", "cpu: 1", one), "name: g,", "name: h,", 1), false},
	} {
		answer := func(pods ...string) *Placement {
			objects, err := input.Read([]string{input.Stdin}, strings.NewReader(manyNodes+strings.Join(pods, "")), input.Options{})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			c := newCluster(t, objects)
			placements, err := c.Run(context.Background(), c.Workloads()[:len(pods)], c.Nodes, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return placements[len(pods)-1]
		}
		alone, after := answer(test.pod), answer(first, test.pod)
		if (after.Like != nil) != test.like {
			t.Errorf("%s: like an earlier pod: %v, want %v", name, after.Like != nil, test.like)
		}
		summaries := func(p *Placement) string {
			text := fmt.Sprint(p.Reason, p.Err)
			for _, group := range GroupRefusals(p.Refusals) {
				text += "\n" + group.Summary
			}
			return claimName.ReplaceAllString(text, "claim")
		}
		if got, want := summaries(after), summaries(alone); got != want {
			t.Errorf("%s: refused because of\n%s\nalone because of\n%s", name, got, want)
		}
	}
}

// Pods whose containers use their extended resources at other times need as much, and have requests with other names.
func TestQuestionTellsRequestsApart(t *testing.T) {
	pod := func(first, second string) string {
		const gpu = "resources: {requests: {example.com/gpu: 1}}"
		return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: a}, spec: {initContainers: [{name: i, image: x, %[1]s%[3]s}, {name: j, image: x, %[2]s%[3]s}], containers: [{name: c, image: x, %[3]s}]}}\n",
			first, second, gpu)
	}
	question := func(pod string) string {
		objects, err := input.Read([]string{input.Stdin}, strings.NewReader(manyNodes+pod), input.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(objects, Options{Features: allocator.AllFeatures(), ExtendedResources: true})
		if err != nil {
			t.Fatal(err)
		}
		placement, a := c.attempt(c.Workloads()[0], nil)
		if a == nil || len(a.extended) != 1 {
			t.Fatalf("no extended resources: %v", placement.Err)
		}
		return a.question()
	}
	const sidecar = "restartPolicy: Always, "
	if question(pod(sidecar, "")) == question(pod("", sidecar)) {
		t.Error("another sidecar, and the same question")
	}
}

// A pod that is placed changes what is left, so that the next one is not refused like one before it.
func TestLikeUntilOneIsPlaced(t *testing.T) {
	const (
		slice = "---\n{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: d, nodeName: n2, pool: {name: p, generation: 1, resourceSliceCount: 1}, devices: [{name: g0}, {name: g1}]}}\n"
		two   = "resourceClaimTemplateName: two"
		three = "resourceClaimTemplateName: three"
	)
	objects, err := input.Read([]string{input.Stdin}, strings.NewReader(manyNodes+slice+
		threeOf+asking("p", "", "", "cpu: 1", three)+asking("q", "", "", "cpu: 1", two)+asking("r", "", "", "cpu: 1", three)), input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, objects)
	placements, err := c.Run(context.Background(), c.Workloads()[:3], c.Nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !placements[1].Placed() {
		t.Fatalf("the pod for two is not placed: %v", placements[1].Refusals)
	}
	last := placements[2]
	if last.Placed() || last.Like != nil {
		t.Errorf("the last pod is placed: %v, refused like %v", last.Placed(), last.Like)
	}
	for _, refusal := range last.Refusals {
		if text := GroupRefusals([]Refusal{refusal})[0].Summary; refusal.Node == "n2" && !strings.Contains(text, "in use") {
			t.Errorf("n2: %s: want that devices are in use", text)
		}
	}
}

// threeOf is a template of a claim for three devices.
const threeOf = "---\n{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: three, namespace: a}, spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 3}}]}}}}\n"

// What is remembered of nodes is for exactly these nodes.
func TestSameNodes(t *testing.T) {
	nodes := []*corev1.Node{{}, {}, {}}
	for name, test := range map[string]struct {
		a, b []*corev1.Node
		want bool
	}{
		"the same": {nodes, nodes, true}, "fewer": {nodes, nodes[:2], false}, "others": {nodes[:2], nodes[1:], false}, "none": {nil, nodes[:0], true}, "a copy": {nodes, append([]*corev1.Node(nil), nodes...), false},
	} {
		if got := sameNodes(test.a, test.b); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// Refusals are remembered for the nodes that were asked about last.
func TestRefusalsAreOfNodes(t *testing.T) {
	nodes := []*corev1.Node{{}, {}, {}}
	var r refused
	first, second, third := new(Placement), new(Placement), new(Placement)
	r.remember("a", nodes, first)
	r.remember("b", nodes, second)
	if r.find("a", nodes) != first || r.find("b", nodes) != second || r.find("c", nodes) != nil || r.find("a", nodes[:2]) != nil {
		t.Errorf("remembered: %v", r)
	}
	r.remember("b", nodes[:2], third)
	if r.find("b", nodes[:2]) != third || r.find("a", nodes[:2]) != nil || r.find("a", nodes) != nil || r.find("b", nodes) != nil {
		t.Errorf("remembered of fewer nodes: %v", r)
	}
}

// With another form of one claim, a pod asks for its other claims as they are.
func TestPlaceWith(t *testing.T) {
	c := read(t, manyNodes+
		"---\n{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: d, nodeName: n2, pool: {name: p, generation: 1, resourceSliceCount: 1}, devices: [{name: g0}, {name: g1}, {name: g2}]}}\n"+
		"---\n{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: a}, spec: {containers: [{name: c, image: x}], resourceClaims: [{name: g, resourceClaimTemplateName: two}, {name: h, resourceClaimTemplateName: two}]}}\n")
	pod := c.Workloads()[0]
	before, err := c.Place(t.Context(), pod, c.Nodes)
	if err != nil || before.Placed() || len(before.Before) != 2 {
		t.Fatalf("four devices of three: placed %t with %d claims, %v", before.Placed(), len(before.Before), err)
	}
	smaller := before.Before[1].DeepCopy()
	smaller.Spec.Devices.Requests[0].Exactly.Count = 1
	after, err := c.PlaceWith(t.Context(), pod, c.Nodes, smaller)
	if err != nil || after.Node != "n2" || after.Before[0].Name != before.Before[0].Name || after.Before[1] != smaller {
		t.Errorf("three devices: on %q with %v, %v", after.Node, after.Before, err)
	}
}
