// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/pools"
)

// cancelledLater is done, and says so from the second time on that it is asked for its error.
type cancelledLater struct {
	context.Context
	asked *int
}

func (c cancelledLater) Err() error {
	if *c.asked++; *c.asked == 1 {
		return nil
	}
	return c.Context.Err()
}

// Cancellation interrupts the evaluation of expressions, also where it is found out what nodes look like, and what was
// interrupted is not remembered: the same nodes share an answer afterwards.
func TestCancellationInterruptsExpressions(t *testing.T) {
	const devices, attributes = 16, 32
	var nodes []*corev1.Node
	var slices []*resourceapi.ResourceSlice
	for _, name := range []string{"node-a", "node-b"} {
		slice := gpus(name, devices, "H100")
		for i := range slice.Spec.Devices {
			for n := range attributes - 2 {
				text := fmt.Sprint(i)
				slice.Spec.Devices[i].Attributes[resourceapi.QualifiedName(fmt.Sprint("a", n))] = resourceapi.DeviceAttribute{StringValue: &text}
			}
		}
		nodes, slices = append(nodes, node(name)), append(slices, slice)
	}
	const all = `device.attributes["gpu.example.com"].all(`
	asked := claim("training", 1)
	asked.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: all + "a, " + all + `b, a != "x" || b != "x"))`,
	}}}
	ledger := pools.NewLedger(pools.Build(allocator.AllFeatures().PoolGates(), slices))
	problem := compile(allocator.Options{Features: allocator.AllFeatures()}, asked)

	cause := errors.New("scheduler is shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if outcome, err := problem.Allocate(cancelledLater{ctx, new(int)}, ledger.State(), nodes[0]); !errors.Is(err, cause) {
		t.Fatalf("outcome %v, error %v", outcome, err)
	}
	if outcome := allocate(t, problem, ledger, nodes[0]); outcome.Verdict() != allocator.Satisfiable || outcome.Stats().CELEvaluations < devices {
		t.Errorf("%v, with %d evaluations left of %d", outcome.Verdict(), outcome.Stats().CELEvaluations, devices)
	}
	if outcome := allocate(t, problem, ledger, nodes[1]); outcome.Verdict() != allocator.Satisfiable || outcome.Stats().Steps > 0 {
		t.Errorf("%v after %d steps: the node is not like the first one", outcome.Verdict(), outcome.Stats().Steps)
	}
}
