// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/explain"
)

// One problem serves any number of nodes.
func ExampleProblem_Allocate() {
	ledger := clusterOf(gpus("node-a", 4, "H100"))
	problem := compile(allocator.Options{}, claim("training", 2))

	outcome, err := problem.Allocate(context.Background(), ledger.State(), node("node-a"))
	if err != nil {
		fmt.Println(err)
		return
	}
	switch answer := outcome.(type) {
	case *allocator.Assignment:
		for _, result := range answer.Results()[0].Devices.Results {
			fmt.Println(result.Request, result.Pool, result.Device)
		}
	case *allocator.Unsatisfiable:
		fmt.Println(answer)
	case *allocator.Undecided:
		fmt.Println(answer)
	}
	// Output:
	// r0 node-a gpu-0
	// r0 node-a gpu-1
}

// Bad input is an error that names the claim and the field.
func ExampleAllocator_Compile() {
	a := allocator.New(allocator.Options{Features: allocator.AllFeatures()})
	c := claim("training", 1)
	c.Spec.Devices.Requests[0].Exactly.DeviceClassName = "gpus"
	_, err := a.Compile([]*resourceapi.ResourceClaim{c}, allocator.ClassMap(gpuClass))
	fmt.Println(err)
	// Output: claim default/training: request r0: deviceClassName: DeviceClass "gpus" does not exist
}

// What an assignment gives is taken by adding the allocated claim to the ledger.
func ExampleAssignment_Results() {
	ledger := clusterOf(gpus("node-a", 2, "H100"))
	for _, name := range []string{"first", "second"} {
		c := claim(name, 1)
		outcome, err := compile(allocator.Options{}, c).Allocate(context.Background(), ledger.State(), node("node-a"))
		if err != nil {
			fmt.Println(err)
			return
		}
		allocated := c.DeepCopy()
		allocated.Status.Allocation = &outcome.(*allocator.Assignment).Results()[0]
		if err := ledger.Assume(allocated); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(name, allocated.Status.Allocation.Devices.Results[0].Device)
	}
	// Output:
	// first gpu-0
	// second gpu-1
}

func ExampleProblem_Evaluate() {
	ledger := clusterOf(gpus("node-a", 1, "H100"), gpus("node-b", 4, "H100"), gpus("node-c", 4, "A100"))
	problem := compile(allocator.Options{}, selecting(claim("training", 2), `device.attributes["gpu.example.com"].model == "H100"`))
	nodes := []*corev1.Node{node("node-a"), node("node-b"), node("node-c")}

	answers, err := problem.Evaluate(context.Background(), ledger.State(), nodes, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range nodes {
		fmt.Println(nodes[i].Name, answers.Verdict(i))
	}
	outcome, err := answers.Outcome(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(chosen(outcome))
	// Output:
	// node-a not satisfiable
	// node-b satisfiable
	// node-c not satisfiable
	// r0=gpu-0 r0=gpu-1
}

func ExampleUnsatisfiable_Explain() {
	ledger := clusterOf(gpus("node-a", 3, "H100"))
	problem := compile(allocator.Options{}, sameRoot(claim("training", 2, 1)))

	outcome, err := problem.Allocate(context.Background(), ledger.State(), node("node-a"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(outcome.(*allocator.Unsatisfiable).Explain().Text())
	// Output:
	// node node-a: request r0 (2 devices, 3 candidates), request r1 (1 device, 3 candidates) and matchAttribute gpu.example.com/root are in conflict
	// conflict:
	//   claim default/training: request r0 needs 2 devices; 3 of 3 that reach the node can serve it
	//   claim default/training: request r1 needs 1 device; 3 of 3 that reach the node can serve it
	//   claim default/training: constraint 0: matchAttribute gpu.example.com/root
	// requests:
	//   claim default/training: request r0: 2 needed, 3 reach the node, 3 candidates
	//   claim default/training: request r1: 1 needed, 3 reach the node, 3 candidates
	// nearest miss: 3 candidates must agree in gpu.example.com/root, at most 2 do
}

// largest is a policy that reads nothing but figures, so that nodes still share answers.
type largest struct{}

func (largest) Before(a, b allocator.Candidate) bool { return a.CompareSize(b) > 0 }

func (largest) Reads() []resourceapi.FullyQualifiedName { return nil }

// A policy changes which of several devices is preferred.
func ExamplePolicy() {
	slice := gpus("node-a", 3, "H100")
	for i, size := range []string{"80Gi", "16Gi", "141Gi"} {
		slice.Spec.Devices[i].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(size)}}
	}
	asking := claim("inference", 1)
	asking.Spec.Devices.Requests[0].Exactly.Capacity = &resourceapi.CapacityRequirements{
		Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("4Gi")},
	}
	state := clusterOf(slice).State()
	for _, policy := range []allocator.Policy{allocator.FirstFit{}, allocator.LeastWaste{}, largest{}} {
		outcome, err := compile(allocator.Options{Policy: policy}, asking).Allocate(context.Background(), state, node("node-a"))
		fmt.Printf("%T: %s, error %v\n", policy, chosen(outcome), err)
	}
	// Output:
	// allocator.FirstFit: r0=gpu-0, error <nil>
	// allocator.LeastWaste: r0=gpu-1, error <nil>
	// allocator_test.largest: r0=gpu-2, error <nil>
}

func ExampleGrouping() {
	var sum explain.Grouping
	for _, e := range []*explain.Explanation{
		{Node: "a", Summary: "node a: claim default/training: request gpu needs 4 devices; 1 of 8 that reach the node can serve it (7 in use)"},
		{Node: "b", Summary: "node b: claim default/training: request gpu needs 4 devices; 3 of 8 that reach the node can serve it (5 in use)"},
	} {
		e.Core = []explain.CoreItem{{Claim: "default/training", Request: "gpu"}}
		e.Requests = []explain.RequestReport{{Claim: "default/training", Request: "gpu", Needed: 4, Reachable: 8, Candidates: map[string]int{"a": 1, "b": 3}[e.Node]}}
		sum.Add(e, e.Node)
	}
	for _, g := range sum.Groups() {
		fmt.Printf("%d nodes: %s: %s\n", len(g.Nodes), g.Statement(), g.Summary())
	}
	// Output:
	// 2 nodes: this cannot be met, with the figures of b, which comes closest: claim default/training: request gpu needs 4 devices; 3 of 8 that reach the node can serve it (5 in use)
}
