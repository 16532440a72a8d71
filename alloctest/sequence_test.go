// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

const sequence = `
cluster
node node-1
node node-2
class gpu
slice gpu.example.com/node-1 on node-1
  gpu-[0..5]
slice gpu.example.com/nas name=nas on all-nodes
  disk shareable capacity size=10Gi
----

allocate five node=node-1
claim a
  request gpus class=gpu count=5
claim b
  request disk class=gpu
----
a/gpus -> gpu.example.com/node-1/gpu-[0..4]
a on node-1
b/disk -> gpu.example.com/nas/disk share consumed size=4Gi
b on all-nodes

then gone node=node-2 dry-run
gone nas
node node-2 zone=a
claim c
  request gpus class=gpu
----
c/gpus -> gpu.example.com/node-1/gpu-5
c on node-1

then released node=node-1
released a
----
nothing to allocate
`

func TestThenStepsFollowEachOther(t *testing.T) {
	scenarios, err := Parse("sequence", sequence)
	if err != nil || len(scenarios) != 3 {
		t.Fatalf("%d scenarios, error %v", len(scenarios), err)
	}
	held := func(c *Case) (devices []string) {
		for _, claim := range c.Allocated {
			for _, result := range claim.Status.Allocation.Devices.Results {
				devices = append(devices, claim.Name+"="+result.Device)
			}
		}
		return devices
	}
	first, gone, released := scenarios[0].Case, scenarios[1].Case, scenarios[2].Case
	if len(first.Allocated) != 0 || len(first.Slices) != 2 {
		t.Errorf("first: %v, %d slices", held(first), len(first.Slices))
	}
	if got := strings.Join(held(gone), " "); got != "a=gpu-0 a=gpu-1 a=gpu-2 a=gpu-3 a=gpu-4 b=disk" {
		t.Errorf("after the first: %s", got)
	}
	share := gone.Allocated[1].Status.Allocation.Devices.Results[0]
	if share.ShareID == nil || share.ConsumedCapacity["size"] != resource.MustParse("4Gi") || share.Request != "disk" {
		t.Errorf("share in use: %+v", share)
	}
	if len(gone.Slices) != 1 || gone.Node != "node-2" || gone.Nodes[1].Labels["zone"] != "a" || gone.Slices[0] != first.Slices[0] {
		t.Errorf("slices and nodes of the second: %+v", gone)
	}
	if got := strings.Join(held(released), " "); got != "b=disk" {
		t.Errorf("after the release, and a dry run: %s", got)
	}
}

func TestThenStepErrors(t *testing.T) {
	for what, text := range map[string]string{
		"a start":            "then x\n----\n",
		"an unknown slice":   sequence + "\nthen x\ngone other\n----\n",
		"an unknown claim":   sequence + "\nthen x\nreleased a\n----\n",
		"gone in allocate":   sequence + "\nallocate x\ngone nas\n----\n",
		"gone without names": sequence + "\nthen x\ngone\n----\n",
		"a foreign outcome":  strings.Replace(sequence, "a/gpus ->", "z/gpus ->", 1),
	} {
		if _, err := Parse("wrong", text); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}

func TestSequenceRoundTrip(t *testing.T) {
	scenarios, err := Parse("sequence", sequence)
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []Outcome
	for _, s := range scenarios {
		results, err := expectedResults(s.Case, s.Expected)
		if err != nil {
			t.Fatal(err)
		}
		outcomes = append(outcomes, Outcome{Results: results})
	}
	turns := []Turn{
		{Case: scenarios[0].Case},
		{Case: &Case{Name: "gone", Node: "node-2", Features: scenarios[1].Case.Features, Nodes: scenarios[1].Case.Nodes[1:], Claims: scenarios[1].Case.Claims}, Gone: []string{"nas"}, DryRun: true},
		{Case: &Case{Name: "released", Node: "node-1", Features: scenarios[2].Case.Features}, Released: []string{"a"}},
	}
	text, err := FormatSequence(turns, outcomes)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"then gone node=node-2 dry-run", "gone nas", "released a"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
}
