// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// scores runs Filter and Score on all nodes. Nodes that do not suit have -1.
func (a *attempt) scores() []int64 {
	a.t.Helper()
	expect(a.t, a.preFilter(), fwk.Success, "")
	list := make([]int64, len(a.nodes))
	for i := range a.nodes {
		list[i] = -1
		if !a.filter(i).IsSuccess() {
			continue
		}
		score, status := a.plugin.Score(a.ctx, a.state, a.pod, a.nodes[i])
		expect(a.t, status, fwk.Success, "")
		list[i] = score
	}
	return list
}

// either is a claim for so many GPUs, or else fewer.
func either(name string, counts ...int64) *resourceapi.ResourceClaim {
	claim := gpuClaim(name, 1)
	request := &claim.Spec.Devices.Requests[0]
	request.Exactly = nil
	for i, count := range counts {
		request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: fmt.Sprint("sub-", i), DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
		})
	}
	return claim
}

// Nodes that serve earlier alternatives are preferred.
func TestScoreOfLists(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{
		node("a"), node("b"), node("c"), node("d"), gpuClass(), gpus("a", 1), gpus("b", 2), gpus("c", 4), gpuClaim("plain", 1), either("list", 4, 2, 1),
	}})
	a := w.attempt(podWith("p", "list"))
	if got := fmt.Sprint(a.scores()); got != "[6 7 8 -1]" {
		t.Errorf("scores %s", got)
	}
	scores := fwk.NodeScoreList{{Name: "a", Score: 6}, {Name: "b", Score: 7}, {Name: "c", Score: 8}}
	expect(t, w.plugin.ScoreExtensions().NormalizeScore(w.ctx, a.state, a.pod, scores), fwk.Success, "")
	if got := fmt.Sprint(scores); got != "[{a 75} {b 87} {c 100}]" {
		t.Errorf("normalized %s", got)
	}
	if got := fmt.Sprint(w.attempt(podWith("p", "plain")).scores()); got != "[0 0 0 -1]" {
		t.Errorf("scores without a list %s", got)
	}
}

func TestScoreOfUsage(t *testing.T) {
	objects := []runtime.Object{
		node("a"), node("b"), gpuClass(), gpus("a", 4), gpus("b", 4), gpuClaim("wanted", 1), held(gpuClaim("busy", 2), "b", "gpu-0", "gpu-3"),
	}
	for scoring, want := range map[string]string{
		"packing: 1":   "[250 750]",
		"spreading: 7": "[750 250]",
		"packing: 0":   "[0 0]",
	} {
		w := newWorld(t, setting{objects: objects, args: "scoring: {prioritizedLists: 0, " + scoring + "}"})
		if got := fmt.Sprint(w.attempt(podWith("p", "wanted")).scores()); got != want {
			t.Errorf("%s: scores %s, want %s", scoring, got, want)
		}
	}
}

// A partition of a device that is partly in use anyway wastes less than one of a whole device.
func TestScoreOfWaste(t *testing.T) {
	fresh, opened := partitioned("a"), partitioned("b")
	objects := []runtime.Object{node("a"), node("b"), gpuClass(), gpuClaim("wanted", 1), held(gpuClaim("busy", 1), "b", "half-0")}
	objects = append(objects, fresh...)
	objects = append(objects, opened...)
	w := newWorld(t, setting{objects: objects, args: "scoring: {prioritizedLists: 0, leastWaste: 1}"})
	// On a, half-0 takes the whole device along: one of three is lost. On b, nothing is.
	if got := fmt.Sprint(w.attempt(podWith("p", "wanted")).scores()); got != "[667 1000]" {
		t.Errorf("scores %s", got)
	}
}

// partitioned is a device on a node that can be had in halves or as a whole, which is listed
// last.
func partitioned(node string) []runtime.Object {
	counters := gpus(node, 0)
	counters.Name = node + "-counters"
	counters.Spec.Pool.ResourceSliceCount = 2
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "gpu", Counters: map[string]resourceapi.Counter{"slices": {Value: resource.MustParse("2")}}}}
	devices := gpus(node, 0)
	devices.Spec.Pool.ResourceSliceCount = 2
	for _, part := range []struct{ name, slices string }{{"half-0", "1"}, {"half-1", "1"}, {"whole", "2"}} {
		devices.Spec.Devices = append(devices.Spec.Devices, resourceapi.Device{Name: part.name, ConsumesCounters: []resourceapi.DeviceCounterConsumption{{
			CounterSet: "gpu", Counters: map[string]resourceapi.Counter{"slices": {Value: resource.MustParse(part.slices)}},
		}}})
	}
	return []runtime.Object{counters, devices}
}
