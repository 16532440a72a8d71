// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
)

// A request for all devices and one for some of them have the same class, and are not equal.
func TestRequestForAllNextToRequestForSome(t *testing.T) {
	c := claim("c", 3)
	c.Spec.Devices.Requests[0] = resourceapi.DeviceRequest{Name: "r0", FirstAvailable: []resourceapi.DeviceSubRequest{
		{Name: "three", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 3},
		{Name: "all", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeAll},
	}}
	outcome, err := compile(allocator.Options{}, c).Allocate(context.Background(), clusterOf(gpus("a", 2, "H100")).State(), node("a"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := chosen(outcome), "r0/all=gpu-0 r0/all=gpu-1"; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
}

// The error names the device and the selector in every call.
func TestDeviceErrorsNameDeviceAndSelector(t *testing.T) {
	const want = `claim default/c: request r0: device gpu.example.com/a/gpu-0: selector 0: `
	nodes, state := []*corev1.Node{node("a")}, clusterOf(gpus("a", 2, "H100")).State()
	for mode, c := range map[resourceapi.DeviceAllocationMode]*resourceapi.ResourceClaim{
		resourceapi.DeviceAllocationModeExactCount: claim("c", 1), resourceapi.DeviceAllocationModeAll: claim("c", 0),
	} {
		c.Spec.Devices.Requests[0].Exactly.AllocationMode = mode
		problem := compile(allocator.Options{}, selecting(c, `device.attributes["gpu.example.com"].missing == "x"`))
		_, err := problem.Allocate(context.Background(), state, nodes[0])
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, expected %s", mode, err, want)
		}
		evaluation, failed := problem.Evaluate(context.Background(), state, nodes, 1)
		if failed != nil {
			t.Fatal(failed)
		}
		if outcome, got := evaluation.Outcome(0); outcome != nil || got == nil || got.Error() != err.Error() {
			t.Errorf("%s: Evaluate says %v, Allocate %v", mode, got, err)
		}
		if got := evaluation.Verdict(0); got != allocator.NoVerdict {
			t.Errorf("%s: the verdict is %s", mode, got)
		}
	}
}

// Evaluate and Allocate return the same Stats.
func TestEvaluationHasStats(t *testing.T) {
	problem, state := compile(allocator.Options{}, claim("c", 2)), clusterOf(gpus("a", 2, "H100")).State()
	nodes := []*corev1.Node{node("a")}
	for _, searched := range []bool{true, false} {
		evaluation, err := problem.Evaluate(context.Background(), state, nodes, 1)
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := evaluation.Outcome(0)
		if err != nil {
			t.Fatal(err)
		}
		if got := outcome.Stats().Steps > 0; got != searched {
			t.Errorf("searched: %v, %+v", searched, outcome.Stats())
		}
	}
}

// The answer for unused devices is not taken for a node where other devices are in use.
func TestIdleAnswersDoNotServeOtherUsages(t *testing.T) {
	ledger := clusterOf(gpus("a", 2, "H100"), gpus("b", 2, "H100"))
	problem := compile(allocator.Options{}, claim("c", 1))
	for _, name := range []string{"a", "b"} {
		outcome, err := compile(allocator.Options{}, claim("holder", 1)).Allocate(context.Background(), ledger.State(), node(name))
		if err != nil {
			t.Fatal(err)
		}
		held := claim("holder-"+name, 1)
		held.Status.Allocation = &outcome.(*allocator.Assignment).Results()[0]
		if err := ledger.Assume(held); err != nil {
			t.Fatal(err)
		}
	}
	if outcome, err := problem.Allocate(context.Background(), ledger.State(), node("a")); err != nil || chosen(outcome) != "r0=gpu-1" {
		t.Fatalf("%s, error %v", chosen(outcome), err)
	}
	outcome, err := problem.Allocate(context.Background(), observe(ledger, func() {}), node("b"))
	if err != nil || chosen(outcome) != "r0=gpu-1" {
		t.Errorf("%s, error %v", chosen(outcome), err)
	}
}

// With several classes, the explanation is about the one that comes closest to having a device.
func TestExplanationOfTheClosestClass(t *testing.T) {
	other := gpuClass.DeepCopy()
	other.Name, other.Spec.Selectors[0].CEL.Expression = "other", `device.driver == "other.example.com"`
	for _, first := range []string{"other", "gpu"} {
		c := claim("c", 1)
		c.Spec.Devices.Requests[0].Exactly.DeviceClassName = first
		if first == "gpu" {
			selecting(c, `device.attributes["gpu.example.com"].model == "A100"`)
		}
		more := extension.Class{DeviceClassName: "other"}
		if first == "other" {
			more.DeviceClassName = "gpu"
			more.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].model == "A100"`}}}
		}
		asked := extension.Claim{Requests: map[string]extension.Request{"r0": {Classes: []extension.Class{more}}}}
		problem, err := allocator.New(allocator.Options{Features: allocator.AllFeatures()}).CompileExtended(
			[]*resourceapi.ResourceClaim{c}, []extension.Claim{asked}, allocator.ClassMap(gpuClass, other))
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := problem.Allocate(context.Background(), clusterOf(gpus("a", 2, "H100")).State(), node("a"))
		if err != nil {
			t.Fatal(err)
		}
		no, ok := outcome.(*allocator.Unsatisfiable)
		if !ok {
			t.Fatalf("%s first: %s", first, chosen(outcome))
		}
		rejections := no.Explain().Requests[0].Rejections
		if len(rejections) != 1 || rejections[0].Devices != 2 || rejections[0].OfClass() {
			t.Errorf("%s first: %+v", first, rejections)
		}
	}
}
