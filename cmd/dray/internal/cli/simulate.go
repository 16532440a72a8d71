// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/nodefit"
	"github.com/dray-project/dray/simulate"
)

const simulateLong = `Ask what would be if the cluster were another one. How many more pods fit, which
kind of node is missing, can a node go, who is in the way? Nothing is changed. Pods
are placed one after the other on the first node that takes them, as by dray
allocate.

Exit status: 0 if the answer is yes or a number. 1 if it is no. 2 for wrong usage or
input. 3 if it is not known: see --budget. Each question says more.`

const simulateExample = `  # How many more pods like the pending ones fit?
  dray simulate fits -f cluster/

  # How many nodes like gpu-1 or gpu-2 would take the pending pods?
  dray simulate plan --like gpu-1,gpu-2 -f cluster/

  # If each new node can be like either: how many, and which could each of them be?
  dray simulate plan --like gpu-1,gpu-2 --any -f cluster/

  # Which new nodes take them at least cost?
  dray simulate plan --prices prices.yaml -f cluster/

  # Which PodGroups could start, with devices for all their pods?
  dray simulate gang -f cluster/

  # Would the pods of a node find another one?
  dray simulate drain gpu-1 -f cluster/

  # Which pods would have to go for this one?
  dray simulate victims trainer-0 -n ml -f cluster/

  # How many fit once the devices of a node are tainted?
  dray simulate what-if --taint example.com/broken:NoSchedule --node gpu-1 -f cluster/

  # Which pods have to move so that this one fits?
  dray simulate repack --for trainer-0 -n ml -f cluster/

  # Which pods move so that as many nodes as possible are empty?
  dray simulate repack --goal nodes -f cluster/

  # At what time do the pending pods start, given when others end?
  dray simulate when --ends ends.txt -f cluster/`

func newSimulate(o *origin) *cobra.Command {
	command := &cobra.Command{
		Use: "simulate", Short: "Ask what would be if nodes came or went",
		Long: simulateLong, Example: simulateExample,
		Args: cobra.NoArgs, RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newSimulateFits(o), newSimulatePlan(o), newSimulateGang(o), newSimulateDrain(o), newSimulateVictims(o), newSimulateWhatIf(o), newSimulateWhen(o), newSimulateRepack(o))
	return command
}

// simulation is a cluster for what-if questions of a subcommand.
type simulation struct {
	*cluster.Cluster
	state  *simulate.State
	shapes []*simulate.Shape // of the pending pods
	// unseen has the aspects of pods that the simulation does not look at.
	unseen []notLookedAt
}

// simulation reads the cluster. selected selects the pending pods; nil selects all.
func (o *origin) simulation(ctx context.Context, selected *selection) (*simulation, error) {
	c, err := o.load(ctx)
	if err != nil {
		return nil, err
	}
	state, err := unlessDone(ctx, c.Simulation)
	if err != nil {
		return nil, err
	}
	for _, fault := range state.Faults() {
		o.streams.note("warning: left out: %v", fault)
	}
	var pods []*corev1.Pod
	for _, pod := range c.PendingPods() {
		if selected != nil && !selected.covers(c, cluster.Workload{Pod: pod}) {
			continue
		}
		if _, err := state.Shapes([]*corev1.Pod{pod}); err != nil {
			o.streams.note("warning: left out: %v", err)
			continue
		}
		pods = append(pods, pod)
	}
	switch pending := len(c.PendingPods()); {
	case selected == nil || len(pods) > 0:
	case pending > 0:
		o.streams.note("no pod that is pending can be asked about: -n, -A, -l and --field-selector choose among %s", render.Count(pending, "pod"))
	default:
		o.streams.note("no pod is pending: there is none to ask about")
	}
	shapes, err := state.Shapes(pods)
	s := &simulation{Cluster: c, state: state, shapes: shapes}
	if selected != nil {
		s.notLookedAt(shapes)
	}
	return s, err
}

// simulateCommand adds the flags and arguments that all subcommands have, and those of a selection
// if it is not nil.
func simulateCommand(command *cobra.Command, selected *selection, run func(ctx context.Context, args []string, f *output) error) *cobra.Command {
	f := &output{}
	f.addTo(command)
	checks := []func() error{f.parse}
	if selected != nil {
		selected.addTo(command.Flags())
		checks = append(checks, selected.parse)
	}
	command.PreRunE = func(*cobra.Command, []string) error { return firstError(checks...) }
	command.RunE = func(command *cobra.Command, args []string) error { return run(command.Context(), args, f) }
	return command
}

// show prints rows as a table, or items as a document, and what the simulation does not look at.
// There is one row per item.
func (s *simulation) show(o *origin, f *output, kind string, headers []string, rows [][]string, items []any) error {
	return s.showWith(o, f, kind, headers, rows, items, nil)
}

// showWith is show for a document with additional fields.
func (s *simulation) showWith(o *origin, f *output, kind string, headers []string, rows [][]string, items []any, more map[string]any) error {
	if f.format.ForPeople() {
		t := o.terminal(f)
		t.Table(headers, rows)
		for _, one := range s.unseen {
			t.Paragraph(0, 2, one.String())
		}
		return nil
	}
	for _, one := range s.unseen {
		o.streams.note("%s", one)
	}
	names := make([]string, len(rows))
	for i, row := range rows {
		names[i] = row[0]
	}
	if items == nil {
		items = []any{} // encoded as an empty list, not as null
	}
	value := map[string]any{"apiVersion": render.APIVersion, "kind": kind, "items": items}
	if len(s.unseen) > 0 {
		value["notLookedAt"] = s.unseen
	}
	maps.Copy(value, more)
	return f.format.Write(o.streams.Out, render.Document{Value: value, Items: items, Names: names}, !f.noHeaders)
}

// notLookedAt has aspects of pods that kube-scheduler looks at and a simulation does not.
type notLookedAt struct {
	// Pod is the name of one of the pods.
	Pod     string   `json:"pod"`
	Aspects []string `json:"aspects"`
}

func (n notLookedAt) String() string {
	return fmt.Sprintf("Not looked at of pods like %s: %s.", n.Pod, strings.Join(n.Aspects, ", "))
}

// notLookedAt records the aspects of the pods of shapes that are not looked at.
func (s *simulation) notLookedAt(shapes []*simulate.Shape) {
	for _, shape := range shapes {
		s.addNotLookedAt(shape.Pods[0], shape.NotLookedAt())
	}
}

// notLookedAtBy records the aspects of a result's pods that are not looked at.
func (s *simulation) notLookedAtBy(result *simulate.Result) {
	for _, n := range result.NotLookedAt {
		s.addNotLookedAt(n.Pod, n.Aspects)
	}
}

// notLookedAtAlone records what is not looked at of a pod that is placed by itself.
func (s *simulation) notLookedAtAlone(pod *corev1.Pod) {
	aspects := nodefit.NotLookedAt(pod)
	if s.HasCompanions(pod) {
		aspects = append(aspects, ofItsGroup)
	}
	s.addNotLookedAt(pod, aspects)
}

// ofItsGroup is what is not looked at of pods of a group that are placed one by one.
const ofItsGroup = "what it must have in common with the other pods of its PodGroup"

// notLookedAtOfGroups records which shapes have pods of groups that are placed one by one.
func (s *simulation) notLookedAtOfGroups() {
	for _, shape := range s.shapes {
		if at := slices.IndexFunc(shape.Pods, s.HasCompanions); at >= 0 {
			s.addNotLookedAt(shape.Pods[at], []string{ofItsGroup})
		}
	}
}

// addNotLookedAt records aspects of a pod. It does nothing if another pod has the same ones.
func (s *simulation) addNotLookedAt(pod *corev1.Pod, aspects []string) {
	aspects = append(aspects, s.ResourcesUnknown(pod)...)
	known := slices.ContainsFunc(s.unseen, func(n notLookedAt) bool { return slices.Equal(n.Aspects, aspects) })
	if len(aspects) > 0 && !known {
		s.unseen = append(s.unseen, notLookedAt{podName(pod), aspects})
	}
}

func podName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// fitsAnswer says how many pods of a shape fit.
type fitsAnswer struct {
	// Pod is the name of one pod of the shape. Pending is how many pods of the shape wait.
	Pod     string `json:"pod"`
	Pending int    `json:"pending"`
	// Fits is how many of them fit if nothing else is placed. It is absent if there is no limit.
	Fits *int `json:"fits,omitempty"`
	// UndecidedNodes is the number of nodes that may take more pods.
	UndecidedNodes int `json:"undecidedNodes"`
}

func newSimulateFits(o *origin) *cobra.Command {
	selected := &selection{origin: o}
	return simulateCommand(&cobra.Command{
		Use:   "fits",
		Short: "Count how many more pods like the pending ones fit, each kind by itself",
		Long: `Count how many more pods like the pending ones fit, each kind by itself: as if
nothing else were placed. -n, -A, -l and --field-selector choose pending pods.

Exit status: 0 however many fit, 2 for wrong usage or input.`,
		Example: `  # How many more pods like those that wait in this namespace?
  dray simulate fits

  # Like the trainers of these manifests
  dray simulate fits -l app=trainer -f cluster/`,
		Args: noArguments,
	}, selected, func(ctx context.Context, _ []string, f *output) error {
		s, err := o.simulation(ctx, selected)
		if err != nil {
			return err
		}
		var rows [][]string
		var items []any
		s.notLookedAtOfGroups()
		for _, shape := range s.shapes {
			fit, err := s.state.FitsMany(ctx, shape, simulate.Real(nil))
			if err != nil {
				return err
			}
			answer := fitsAnswer{Pod: podName(shape.Pods[0]), Pending: len(shape.Pods), Fits: limit(fit), UndecidedNodes: fit.Undecided}
			rows = append(rows, []string{answer.Pod, fmt.Sprint(answer.Pending), count(answer.Fits), fmt.Sprint(answer.UndecidedNodes)})
			items = append(items, answer)
		}
		return s.show(o, f, "SimulatedFitList", []string{"POD", "PENDING", "FITS", "UNDECIDED NODES"}, rows, items)
	})
}

// planAnswer says how many nodes like an existing one the pending pods need.
type planAnswer struct {
	Like string `json:"like"`
	// Nodes is how many must be added. Placed counts the pods that then have a place. Unplaced and
	// Undecided count those that have none, or may have one.
	Nodes     int `json:"nodes"`
	Placed    int `json:"placed"`
	Unplaced  int `json:"unplaced"`
	Undecided int `json:"undecided"`
}

func newSimulatePlan(o *origin) *cobra.Command {
	var like []string
	var most int
	var undecided bool
	var file string
	selected := &selection{origin: o}
	command := simulateCommand(&cobra.Command{
		Use:     "plan --like NODE,... | --prices FILE",
		Short:   "Count how many nodes like an existing one the pending pods need, or at least cost",
		Long:    planLong,
		Example: planExample,
		Args:    noArguments,
	}, selected, func(ctx context.Context, _ []string, f *output) error {
		if most < 0 {
			return fmt.Errorf("--most %d: want 0 or more", most)
		}
		if file != "" && (undecided || len(like) > 0) {
			return errors.New("--prices says which nodes new ones would be like: leave out --like and --any")
		}
		s, err := o.simulation(ctx, selected)
		if err != nil {
			return err
		}
		if file != "" {
			return s.planMix(ctx, o, f, file, most)
		}
		if len(like) == 0 {
			for _, node := range s.Nodes {
				like = append(like, node.Name)
			}
		}
		parties, err := s.parties(o)
		if err != nil {
			return err
		}
		if undecided {
			return s.planAny(ctx, o, f, parties, like, most)
		}
		var rows [][]string
		var items []any
		outcome := errNotPlaced // the best for all kinds of nodes
		for _, name := range like {
			answer, err := s.plan(ctx, parties, name, most)
			if err != nil {
				return err
			}
			switch {
			case answer.Unplaced+answer.Undecided == 0:
				outcome = nil
			case answer.Unplaced == 0 && outcome != nil:
				outcome = errUndecided
			}
			rows = append(rows, []string{answer.Like, fmt.Sprint(answer.Nodes), fmt.Sprint(answer.Placed), fmt.Sprint(answer.Unplaced), fmt.Sprint(answer.Undecided)})
			items = append(items, answer)
		}
		if err := s.show(o, f, "SimulatedPlanList", []string{"LIKE", "NODES", "PLACED", "UNPLACED", "UNDECIDED"}, rows, items); err != nil {
			return err
		}
		return outcome
	})
	command.Flags().StringSliceVar(&like, "like", nil, "nodes that new ones would be like, each tried by itself (default all)")
	command.Flags().IntVar(&most, "most", 0, "add at most so many nodes (default no limit)")
	command.Flags().BoolVar(&undecided, "any", false, "each new node can be like any of --like: tell what is left of that once the pods are there")
	command.Flags().StringVar(&file, "prices", "", "a file that says what nodes cost: choose those that cost least together")
	// an error means that the flag does not exist
	_ = command.RegisterFlagCompletionFunc("like", o.completeNode)
	return command
}

// plan places the pending pods on existing nodes first, and then on new ones. Pods of DaemonSets and mirror pods
// also run on the new nodes.
func (s *simulation) plan(ctx context.Context, parties []party, like string, most int) (planAnswer, error) {
	template, err := s.state.TemplateOf(like, stays)
	if err != nil {
		return planAnswer{}, fmt.Errorf("--like: %w", err)
	}
	answer := planAnswer{Like: like}
	sim := s.state.Sim()
	err = fill(ctx, sim, parties, template, most, func(result *simulate.Result) {
		answer.Placed, answer.Unplaced, answer.Undecided = answer.Placed+result.Placed, answer.Unplaced+result.Unfit, answer.Undecided+result.Undecided
	})
	answer.Nodes, _ = sim.Added(template)
	return answer, err
}
