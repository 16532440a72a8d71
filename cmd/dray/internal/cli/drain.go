// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/simulate"
)

// drainAnswer is the new node of a pod.
type drainAnswer struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
}

func newSimulateDrain(o *origin) *cobra.Command {
	return simulateCommand(&cobra.Command{
		Use:   "drain NODE...",
		Short: "Tell whether the pods of nodes find other ones, and which",
		Long: `Tell whether the pods of nodes find other ones, and which. Pods that wait are left
aside. Pods of a PodGroup come first if they must have something in common. They have to
find places together, with what the other pods of the group have that run.

Exit status: 0 if all pods find another node, 1 if not, 2 for wrong usage or input, 3 if
that is not known.`,
		Example: `  # Can this node go?
  dray simulate drain gpu-1

  # Can both go together?
  dray simulate drain gpu-1 gpu-2 -f cluster/`,
		Args:              someArguments("NODE", 1, -1),
		ValidArgsFunction: o.completeNode,
	}, nil, func(ctx context.Context, names []string, f *output) error {
		s, err := o.simulation(ctx, nil)
		if err != nil {
			return err
		}
		parts, err := s.drain(ctx, names)
		if err != nil {
			return err
		}
		var rows [][]string
		var items []any
		unfit, undecided := 0, 0
		for i := range parts {
			unfit, undecided = unfit+parts[i].Unfit, undecided+parts[i].Undecided
			for placement := range parts[i].Placements() {
				answer := drainAnswer{Pod: podName(placement.Pod), Node: placement.Node.Name()}
				rows = append(rows, []string{answer.Pod, answer.Node})
				items = append(items, answer)
			}
		}
		if err := s.show(o, f, "SimulatedDrain", []string{"POD", "NODE"}, rows, items); err != nil || unfit+undecided == 0 {
			return err
		}
		if unfit == 0 {
			o.streams.note("it is not known whether %s can go: %s undecided", strings.Join(names, ", "), render.Count(undecided, "pod"))
		} else {
			o.streams.note("%s cannot go: %s without another place, %d undecided", strings.Join(names, ", "), render.Count(unfit, "pod"), undecided)
		}
		for i := range parts {
			if closest := parts[i].Closest; closest != nil {
				o.streams.note("PodGroup %s: %s", parts[i].group, closest)
			}
			refusals, err := parts[i].Why(ctx)
			if err != nil {
				return err
			}
			for k := range refusals {
				o.streams.note("%s", refusals[k].String())
			}
		}
		return notPlaced(unfit == 0)
	})
}

// drained is the result for some of the pods of drained nodes: those of a group that must have
// something in common, or all others.
type drained struct {
	group types.NamespacedName
	simulate.Result
}

// drain places the pods of nodes elsewhere: first groups whose pods must have something in common,
// then the other pods.
func (s *simulation) drain(ctx context.Context, nodes []string) ([]drained, error) {
	leaving := slices.DeleteFunc(s.Running(), func(pod *corev1.Pod) bool {
		return !slices.Contains(nodes, pod.Spec.NodeName) || cluster.GoesWithNode(pod)
	})
	sim, on := s.state.Sim(), simulate.Real(func(node *corev1.Node) bool { return !slices.Contains(nodes, node.Name) })
	var parts []drained
	for _, group := range s.Companions(leaving) {
		s.addNotLookedAt(group.Pods[0], group.NotLookedAt)
		if len(group.Topologies) == 0 {
			continue
		}
		demands, err := s.state.Demands(group.Pods)
		if err != nil {
			return nil, fmt.Errorf("pod on a node to be drained: %w", err)
		}
		if err := sim.Evict(group.Pods...); err != nil {
			return nil, err
		}
		result, err := sim.Gang(ctx, demands, group.Topologies, on, simulate.FirstFit)
		if err != nil {
			return nil, err
		}
		if result.NoProof {
			result.Unfit, result.Undecided = 0, result.Undecided+result.Unfit
		}
		parts = append(parts, drained{group.Key, result})
	}
	rest, err := sim.Drain(ctx, simulate.Real(nil), simulate.FirstFit, nodes...)
	if err != nil {
		return nil, err
	}
	parts = append(parts, drained{Result: rest})
	for i := range parts {
		s.notLookedAtBy(&parts[i].Result)
	}
	return parts, nil
}
