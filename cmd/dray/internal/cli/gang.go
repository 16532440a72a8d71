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

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/nodefit"
)

// gangAnswer says how many pods of a group fit together.
type gangAnswer struct {
	PodGroup string `json:"podGroup"`
	// Pending is the number of pods that wait. Needs is how many of them must have a place for the
	// group to start. Fit is how many fit together.
	Pending int `json:"pending"`
	Needs   int `json:"needs"`
	Fit     int `json:"fit"`
	// Verdict is satisfiable, not satisfiable or not decided. Exact says that "not satisfiable" is
	// proven.
	Verdict string `json:"verdict"`
	Exact   bool   `json:"exact,omitempty"`
	// OneByOne says that the pods also get places if they are placed one after the other.
	OneByOne bool `json:"oneByOne"`
	// Domain are the attribute values that the devices of all pods share, if the group requires
	// that.
	Domain []string `json:"domain,omitempty"`
	// Topology is the label and value of the nodes for all pods, if the group requires that. If
	// they do not fit, it is the closest one.
	Topology string `json:"topology,omitempty"`
	// Why says, in sentences, what the pods compete for and what would help, if the group does not
	// start.
	Why []string `json:"why,omitempty"`
}

func newSimulateGang(o *origin) *cobra.Command {
	oneByOne := false
	command := simulateCommand(&cobra.Command{
		Use:   "gang [PODGROUP]...",
		Short: "Tell whether the pods of a group fit together, each group by itself",
		Long: `Tell whether the pods of a PodGroup that wait fit together, as many as the group
needs (minCount). Each group is looked at by itself, as if nothing else were placed.
Pods are placed one after the other first. If that fails, they are looked at
together: an earlier pod keeps its preferred alternative wherever the others still
fit. What the devices of all pods are to have in common is read from the annotation
dray-project.github.io/extension of the PodGroup. With a topology constraint
(spec.schedulingConstraints), all pods go to nodes with one value of its label.

VERDICT is "satisfiable", "not satisfiable" or "not decided"; EXACT says whether a
"not satisfiable" is a proof.

Exit status: 0 if enough pods of each group fit, 1 if not, 2 for wrong usage or
input, 3 if that is not known.`,
		Example: `  # Which groups of this namespace could start?
  dray simulate gang

  # As kube-scheduler does it, one pod after the other
  dray simulate gang --one-by-one trainers -f cluster/`,
		Args: cobra.ArbitraryArgs,
	}, nil, func(ctx context.Context, names []string, f *output) error {
		c, err := o.load(ctx)
		if err != nil {
			return err
		}
		gangs, err := findGangs(c, names, o)
		if err != nil {
			return err
		}
		if len(gangs) == 0 {
			o.streams.note("no PodGroup has pods that wait for devices")
		}
		var rows [][]string
		var items []any
		s := &simulation{Cluster: c}
		outcome := error(nil)
		for _, g := range gangs {
			for _, w := range g.Workloads {
				s.addNotLookedAt(w.Pod, nodefit.NotLookedAt(w.Pod))
			}
			found, err := c.PlaceGang(ctx, g, c.Nodes, oneByOne)
			if err != nil {
				return err
			}
			if err := c.WhyNot(ctx, found); err != nil {
				return err
			}
			answer := newGangAnswer(found)
			if found.Verdict != allocator.Satisfiable {
				// That they do not fit in this order is certain.
				inOrder := oneByOne && found.Verdict == allocator.NotSatisfiable
				outcome = worse(outcome, notPlaced(found.MayFit() && !inOrder))
			}
			rows = append(rows, []string{
				answer.PodGroup, fmt.Sprint(answer.Pending), fmt.Sprint(answer.Needs), fmt.Sprint(answer.Fit), answer.Verdict, orNo(answer.Exact), orNo(answer.OneByOne),
			})
			items = append(items, answer)
		}
		if err := s.show(o, f, "SimulatedGangList", []string{"PODGROUP", "PENDING", "NEEDS", "FIT", "VERDICT", "EXACT", "ONE BY ONE"}, rows, items); err != nil {
			return err
		}
		return outcome
	})
	command.Flags().BoolVar(&oneByOne, "one-by-one", false, "place the pods one after the other only, as kube-scheduler does")
	return command
}

func newGangAnswer(found *cluster.GangOutcome) gangAnswer {
	answer := gangAnswer{
		PodGroup: found.Gang.Key.String(), Pending: len(found.Gang.Workloads), Needs: found.Gang.Needs, Fit: found.Placed(), Verdict: found.Verdict.String(),
		Exact: found.Exact, OneByOne: found.OneByOne && found.Verdict == allocator.Satisfiable, Why: found.Why,
		Topology: found.Topology,
	}
	for _, domain := range found.Domain {
		answer.Domain = append(answer.Domain, domain.String())
	}
	return answer
}

func orNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// findGangs returns the groups with these names, or those that the namespace flags select.
func findGangs(c *cluster.Cluster, names []string, o *origin) ([]cluster.Gang, error) {
	all := c.Gangs()
	keys := make([]types.NamespacedName, len(all))
	for i, g := range all {
		keys[i] = g.Key
	}
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(g cluster.Gang) bool { return o.namespaceGiven() && !o.covers(g.Key) }), nil
	}
	var chosen []cluster.Gang
	for _, name := range names {
		key, err := resolve("PodGroup", "has no pods that wait for devices", name, keys, o)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, all[slices.Index(keys, key)])
	}
	return chosen, nil
}

// groupArgument returns the name in podgroup/NAME.
func groupArgument(argument string) (string, bool) {
	kind, name, qualified := strings.Cut(argument, "/")
	return name, qualified && (strings.EqualFold(kind, "podgroup") || strings.EqualFold(kind, "podgroups"))
}

// explainGang says how many pods of a group fit together. It then explains what the first other pod
// lacks when they have their places.
func (f *explainFlags) explainGang(ctx context.Context, c *cluster.Cluster, on []*corev1.Node, name string) error {
	gangs, err := findGangs(c, []string{name}, f.origin)
	if err != nil {
		return err
	}
	if !f.alone {
		before := c.Workloads()
		at := slices.Index(before, gangs[0].Workloads[0])
		if _, err := c.Run(ctx, before[:at], c.Nodes, nil); err != nil {
			return err
		}
	}
	found, err := c.PlaceGang(ctx, gangs[0], on, false)
	if err != nil {
		return err
	}
	if err := c.WhyNot(ctx, found); err != nil {
		return err
	}
	why := found.String()
	if err := c.SupposeGang(found); err != nil {
		return err
	}
	t := f.origin.terminal(f.output)
	if f.output.format.ForPeople() {
		t.Paragraph(0, 0, why+".")
	}
	for i, w := range found.Gang.Workloads {
		if found.Placements[i].Placed() {
			continue
		}
		placement, err := c.Survey(ctx, w, on, nil)
		if err != nil {
			return err
		}
		if found.Verdict == allocator.Satisfiable && placement.Err == nil {
			break // the group does not need this one
		}
		if f.output.format.ForPeople() {
			t.Line("")
			t.Paragraph(0, 0, fmt.Sprintf("With %s of the group placed, the next one:", render.Count(found.Placed(), "pod")))
		}
		answer := render.NewAnswer(c, placement, found.Placed())
		if !f.output.format.ForPeople() {
			answer.Reason = why
		}
		if err := f.print(c, []*render.Answer{answer}, []string{name}); err != nil {
			return err
		}
		return notPlaced(found.MayFit())
	}
	if f.output.format.ForPeople() {
		t.Line("")
		t.Placements(c, found.Placements)
		return nil
	}
	return f.output.format.Write(f.origin.streams.Out, render.ClaimsDocument(found.Placements), !f.output.noHeaders)
}
