// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"context"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/ending"
	"github.com/dray-project/dray/simulate"
)

// call asks something of a cluster with nodes a, b and c, and returns the answer as a text.
type call func(context.Context, *simulate.State) (string, error)

// placing are calls that place pods.
func placing(t *testing.T) map[string]call {
	all := simulate.Real(nil)
	said := func(r simulate.Result, err error) (string, error) {
		text := fmt.Sprint(r.Placed, r.Unfit, r.Undecided, r.NoProof, r.Err)
		for p := range r.Placements() {
			text += " " + p.Pod.Name + " on " + p.Node.Name()
		}
		return text, err
	}
	return map[string]call{
		"place on the first node": func(ctx context.Context, state *simulate.State) (string, error) {
			return said(state.Sim().Place(ctx, gpuPods("three", 1)[0], all, simulate.FirstFit))
		},
		"place where least is left": func(ctx context.Context, state *simulate.State) (string, error) {
			return said(state.Sim().Place(ctx, gpuPods("two", 1)[0], all, simulate.Pack))
		},
		"place many": func(ctx context.Context, state *simulate.State) (string, error) {
			return said(state.Sim().PlaceMany(ctx, shapeOf(t, state, gpuPods("one", 9)), 9, all, simulate.FirstFit))
		},
		"gang": func(ctx context.Context, state *simulate.State) (string, error) {
			demands := []simulate.Demand{{Shape: shapeOf(t, state, gpuPods("two", 2)), Count: 2}, {Shape: shapeOf(t, state, gpuPods("three", 1)), Count: 1}}
			return said(state.Sim().Gang(ctx, demands, []simulate.Topology{{NodeLabel: "zone"}}, all, simulate.FirstFit))
		},
		"gang that does not fit": func(ctx context.Context, state *simulate.State) (string, error) {
			demands := []simulate.Demand{{Shape: shapeOf(t, state, gpuPods("two", 2)), Count: 2}, {Shape: shapeOf(t, state, gpuPods("three", 2)), Count: 2}}
			return said(state.Sim().Gang(ctx, demands, []simulate.Topology{{DeviceAttribute: "gpu.example.com/rail"}}, all, simulate.FirstFit))
		},
		"drain": func(ctx context.Context, state *simulate.State) (string, error) {
			sim := state.Sim()
			place(t, sim, shapeOf(t, state, gpuPods("one", 3)), 3, all)
			return said(sim.Drain(ctx, all, simulate.FirstFit, "a", "b"))
		},
		"put": func(ctx context.Context, state *simulate.State) (string, error) {
			return said(state.Sim().Put(ctx, gpuPods("two", 1)[0], nodeOf(t, state, "b")))
		},
	}
}

// asking are calls that ask about a State.
func asking(t *testing.T) map[string]call {
	all := simulate.Real(nil)
	but := func(name string) simulate.Nodes {
		return simulate.Real(func(n *corev1.Node) bool { return n.Name != name })
	}
	return map[string]call{
		"drainable": func(ctx context.Context, state *simulate.State) (string, error) {
			sim := state.Sim()
			place(t, sim, shapeOf(t, state, gpuPods("two", 2)), 2, all)
			list, err := sim.State().Drainable(ctx, all, all, simulate.FirstFit)
			text := ""
			for _, d := range list {
				text += fmt.Sprint(d.Node.Name(), d.Possible, d.Undecided, d.Err)
			}
			return text, err
		},
		"fits": func(ctx context.Context, state *simulate.State) (string, error) {
			fit, err := state.FitsMany(ctx, shapeOf(t, state, gpuPods("two", 1)), all)
			return fmt.Sprint(fit.Pods, fit.Undecided), err
		},
		"take room": func(ctx context.Context, state *simulate.State) (string, error) {
			room, err := state.Room(nodeOf(t, state, "b"))
			if err != nil {
				t.Fatal(err)
			}
			_, fit, err := room.Take(ctx, shapeOf(t, state, gpuPods("two", 1)))
			return fmt.Sprint(fit), err
		},
		"victims": func(ctx context.Context, state *simulate.State) (string, error) {
			sim := state.Sim()
			place(t, sim, shapeOf(t, state, gpuPods("one", 8)), 8, all)
			sets, undecided, err := sim.State().Victims(ctx, shapeOf(t, state, gpuPods("three", 1)), all, func(*corev1.Pod) float64 { return 1 }, 2)
			text := fmt.Sprint(undecided)
			for _, set := range sets {
				text += fmt.Sprint(" ", set.Node.Name(), len(set.Pods), set.Least)
			}
			return text, err
		},
		"claims": func(ctx context.Context, state *simulate.State) (string, error) {
			r, err := state.Sim().Place(t.Context(), gpuPods("two", 1)[0], all, simulate.FirstFit)
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			for p := range r.Placements() {
				claims, err := p.Claims(ctx)
				if err != nil {
					return "", err
				}
				text += fmt.Sprint(len(claims), len(claims[0].Spec.Devices.Requests), claims[0].Status.Allocation.Devices.Results)
			}
			return text, nil
		},
		"why not": func(ctx context.Context, state *simulate.State) (string, error) {
			r, err := state.Sim().Place(t.Context(), gpuPods("three", 1)[0], but("b"), simulate.FirstFit)
			if err != nil || r.Placed > 0 {
				t.Fatalf("%d placed, %v", r.Placed, err)
			}
			refusals, err := r.Why(ctx)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(len(refusals), refusals[0].String()), nil
		},
	}
}

// With whatever it is doing, a call ends with its context: with its error, or with all of the answer.
func TestCallsEndWithTheirContext(t *testing.T) {
	calls := placing(t)
	maps.Copy(calls, asking(t))
	for name, ask := range calls {
		t.Run(name, func(t *testing.T) {
			ended := ending.Anywhere(t, func(ctx context.Context) (string, error) {
				c := gpuCluster("a", "b", "c")
				for i, node := range c.Nodes {
					node.Labels = map[string]string{"zone": fmt.Sprint(i % 2)}
					for d := range c.Slices[i].Spec.Devices {
						c.Slices[i].Spec.Devices[d].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"rail": {IntValue: ptr.To(int64(d))}}
					}
				}
				for _, i := range []int{0, 2} {
					c.Slices[i].Spec.Devices = c.Slices[i].Spec.Devices[:2]
				}
				return ask(ctx, open(t, c, simulate.Options{})) // which remembers nothing yet
			})
			if ended < 1 {
				t.Error("it did not look at the context")
			}
		})
	}
}
