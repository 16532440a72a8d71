// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/fix"
	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/cmd/dray/internal/usage"
)

const explainLong = `Say why a pod or claim can or cannot be allocated.

Refusals are grouped by kind, beginning with what comes closest. Each group says how
many nodes refuse, and which requests and constraints cannot hold together. It says
how many devices each request reaches, what rejects the others, and what would have
to change least. If the pod or claim can be allocated: on which nodes, and with
which devices on the first.

Without arguments, all pending pods and claims are looked at. Those which cannot be
placed are explained as soon as that is known. Pods that are refused for the same
reasons are explained once. KIND/NAME, such as deployment/trainer, stands for the
pods that the object makes. podgroup/NAME is about the pods of a PodGroup together: how many fit, and which of
them compete for which devices or counters. It says what would have to change for the
group to start, and what the first of the others lacks.

What comes before it in the order of "dray allocate" is placed first, unless
--alone is given. A claim is looked at by itself, without the pods that use it.

--patch prints a manifest instead: the claim, or its template, with a small change by which
it can be placed. That is a class that exists, a taint tolerated, a lower count, a
constraint less or a selector less. Each change was tried on the cluster. The spec of a
claim cannot be changed: claims, and pods that use a template, have to be made anew.

node/NAME says how many devices of the node are in use, and which pending pods and
claims could go there. It also says why the others could not.

` + render.Guide + ` explains each phrase.

Exit status: 0 if it can be (or is) allocated, or --patch finds a change. 1 if not. 2 for
wrong usage or input. 3 if that is not known: see --budget.`

const explainExample = `  # Why is anything pending in this namespace?
  dray explain

  # Why is this pod pending?
  dray explain trainer-0 -n ml

  # On one node only, in detail
  dray explain trainer-0 -n ml --node gpu-worker-1

  # The pods of a group, together
  dray explain podgroup/trainers -f cluster/

  # Who could use this node, and why is it idle?
  dray explain node/gpu-worker-1 -A

  # What could be asked for instead?
  dray explain trainer-0 -n ml --patch

  # A claim, by itself
  dray explain claim/shared-gpus -f cluster/

  # For a program
  dray explain trainer-0 -f cluster/ -o json`

type explainFlags struct {
	origin    *origin
	selection *selection
	output    *output
	watch     bool
	node      string
	alone     bool
	patch     bool
	// ofNode is set if the argument is a node. named is set if the arguments name subjects.
	ofNode   bool
	named    bool
	progress *progress
}

func newExplain(o *origin) *cobra.Command {
	flags := &explainFlags{origin: o, selection: &selection{origin: o}, output: &output{}}
	command := &cobra.Command{
		Use:     "explain [POD|claim/NAME|podgroup/NAME|KIND/NAME]... | node/NAME",
		Short:   "Say why pods or claims can or cannot be allocated",
		Long:    explainLong,
		Example: explainExample,
		PreRunE: func(*cobra.Command, []string) error {
			return firstError(flags.output.parse, flags.selection.parse, flags.check)
		},
		RunE: func(command *cobra.Command, args []string) error {
			return o.repeat(command.Context(), flags.watch, func(ctx context.Context) error { return flags.run(ctx, args) })
		},

		ValidArgsFunction: o.completeSubject,
	}
	o.addNode(command, &flags.node, "look at this node only")
	command.Flags().BoolVar(&flags.alone, "alone", false, "do not place what comes before it first")
	command.Flags().BoolVar(&flags.patch, "patch", false, "print the claim with a change by which it can be allocated, instead of an explanation")
	addWatch(command, &flags.watch)
	flags.selection.addTo(command.Flags())
	flags.output.addTo(command)
	return command
}

func (f *explainFlags) run(ctx context.Context, args []string) error {
	c, err := f.origin.load(ctx)
	if err != nil {
		return err
	}
	args = qualify(c, args)
	if args, err = f.about(args); err != nil {
		return err
	}
	f.named = len(args) > 0
	on, err := nodes(c, f.node)
	if err != nil {
		return err
	}
	if len(args) == 1 {
		if name, isGroup := groupArgument(args[0]); isGroup {
			if f.patch {
				return errors.New("--patch is about pods and claims, not about a PodGroup together")
			}
			return f.explainGang(ctx, c, on, name)
		}
	}
	subjects, err := f.subjects(c, args)
	if err != nil {
		return err
	}
	if f.patch {
		return f.patches(ctx, c, on, subjects)
	}
	if f.output.format.ForPeople() && (len(args) != 1 || len(subjects) != 1) {
		err := f.report(ctx, c, on, subjects)
		if err == nil && len(args) == 0 {
			err = f.selection.opaque(c)
		}
		return err
	}
	answers, err := f.answers(ctx, c, on, subjects)
	if err != nil {
		return err
	}
	if err := f.print(c, answers, args); err != nil {
		return err
	}
	if err := verdict(answers); err != nil || len(args) > 0 {
		return err
	}
	return f.selection.opaque(c)
}

func (f *explainFlags) check() error {
	if f.patch && f.output.text != "" {
		return errors.New("--patch writes manifests: it goes without --output")
	}
	return nil
}

// patches prints a change of a claim for each subject that cannot be placed.
func (f *explainFlags) patches(ctx context.Context, c *cluster.Cluster, on []*corev1.Node, subjects []*subject) error {
	var worst error
	printed := 0
	err := f.inTurn(ctx, c, subjects, func(s *subject, _ int, known *cluster.Placement) (*cluster.Placement, error) {
		if s.settled != "" {
			return nil, nil
		}
		placement := known
		if placement == nil {
			var err error
			if placement, err = c.Place(ctx, s.workload, on); err != nil {
				return nil, err
			}
		}
		if placement.Placed() {
			f.progress.aside(func() {
				f.origin.streams.note("%s can be placed as it is, on node %s", titleOf(s.workload), placement.Node)
			})
		} else if err := f.patchFor(ctx, c, on, placement, &printed); errors.Is(err, errNotPlaced) || errors.Is(err, errUndecided) {
			worst = worse(worst, err)
		} else if err != nil {
			return nil, err
		}
		if len(on) != len(c.Nodes) {
			return nil, nil
		}
		return placement, nil
	})
	if err != nil {
		return err
	}
	return worst
}

func titleOf(w cluster.Workload) string {
	if w.Pod != nil {
		return "Pod " + w.Key().String()
	}
	return "ResourceClaim " + w.Key().String()
}

// patchFor prints a change of a claim with which the workload can be placed.
func (f *explainFlags) patchFor(ctx context.Context, c *cluster.Cluster, on []*corev1.Node, refused *cluster.Placement, printed *int) error {
	found, undecided, err := fix.Find(ctx, c, refused, on)
	if err != nil {
		return err
	}
	if found == nil {
		text := "%s: no small change of a claim helps"
		if undecided {
			text = "%s: it is not known whether a small change of a claim helps: raise --budget to search on"
		}
		f.progress.aside(func() { f.origin.streams.note(text, titleOf(refused.Workload)) })
		return notPlaced(undecided || refused.MayFit())
	}
	manifest, err := yaml.Marshal(found.Manifest)
	if err != nil {
		return err
	}
	comment := render.Printable(titleOf(refused.Workload) + ": " + found.String())
	f.progress.aside(func() {
		if *printed++; *printed > 1 {
			fmt.Fprintln(f.origin.streams.Out, "---")
		}
		fmt.Fprintf(f.origin.streams.Out, "# %s\n%s", comment, manifest)
	})
	return nil
}

// about handles the argument node/NAME: it selects all pending workloads, on that node only.
func (f *explainFlags) about(args []string) ([]string, error) {
	for _, argument := range args {
		kind, name, _ := strings.Cut(argument, "/")
		if name == "" || !slices.Contains([]string{"node", "nodes", "no"}, strings.ToLower(kind)) {
			continue
		}
		if len(args) > 1 || f.node != "" && f.node != name {
			return nil, fmt.Errorf("%s: want one node, and neither other subjects nor another --node", argument)
		}
		f.node, f.ofNode = name, true
		return nil, nil
	}
	return args, nil
}

// subjects returns the named subjects, or else all pending workloads.
func (f *explainFlags) subjects(c *cluster.Cluster, args []string) ([]*subject, error) {
	var subjects []*subject
	for _, argument := range args {
		found, err := find(c, argument, f.origin)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			if !slices.ContainsFunc(subjects, func(known *subject) bool { return known.workload == s.workload }) {
				subjects = append(subjects, s)
			}
		}
	}
	if len(args) > 0 {
		return subjects, nil
	}
	for _, key := range c.PodKeys() {
		if w := (cluster.Workload{Pod: c.Pod(key)}); c.Bypassed(w.Pod) != "" && f.selection.covers(c, w) {
			subjects = append(subjects, subjectOf(c, w.Pod))
		}
	}
	for _, w := range c.Workloads() {
		if f.selection.covers(c, w) {
			subjects = append(subjects, &subject{workload: w})
		}
	}
	return subjects, nil
}

// answers returns an answer per subject, in order. Each covers all nodes.
func (f *explainFlags) answers(ctx context.Context, c *cluster.Cluster, on []*corev1.Node, subjects []*subject) ([]*render.Answer, error) {
	answers := make(map[*subject]*render.Answer)
	err := f.inTurn(ctx, c, subjects, func(s *subject, before int, known *cluster.Placement) (*cluster.Placement, error) {
		if s.settled != "" {
			answers[s] = render.SettledAnswer(s.workload, s.settled, s.bypassed, c.ClaimsOf(s.workload))
			return nil, nil
		}
		if known != nil {
			answers[s] = render.NewAnswer(c, known, before)
			return known, nil
		}
		placement, err := c.Survey(ctx, s.workload, on, nil)
		if err == nil {
			answers[s] = render.NewAnswer(c, placement, before)
		}
		return nil, err
	})
	list := make([]*render.Answer, len(subjects))
	for i, s := range subjects {
		list[i] = answers[s]
	}
	return list, err
}

// report prints an explanation for each subject that cannot be placed, as soon as it is known. It
// counts the others.
func (f *explainFlags) report(ctx context.Context, c *cluster.Cluster, on []*corev1.Node, subjects []*subject) error {
	t := f.origin.terminal(f.output)
	if f.ofNode {
		if err := f.describeNode(c, t); err != nil {
			return err
		}
	}
	if pending := len(c.Workloads()); len(subjects) == 0 && pending > 0 {
		t.NotSelected(pending)
		return nil
	}
	if len(subjects) == 0 {
		t.Line("Nothing is pending that asks for devices.")
		return nil
	}
	report := t.NewReport(c)
	var worst error
	err := f.inTurn(ctx, c, subjects, func(s *subject, before int, placement *cluster.Placement) (*cluster.Placement, error) {
		switch {
		case s.bypassed:
			report.AddBypassed(s.workload, s.settled)
			worst = worse(worst, errNotPlaced)
			return nil, nil
		case s.settled != "":
			report.AddPlaced()
			return nil, nil
		}
		if placement == nil {
			var err error
			if placement, err = c.Place(ctx, s.workload, on); err != nil {
				return nil, err
			}
		}
		switch {
		case placement.Placed():
			report.AddPlaced()
			if f.ofNode {
				f.progress.aside(func() { t.Line(s.workload.String() + " can be placed on it.") })
			}
		case placement.Err != nil:
			worst = errReported
		default:
			worst = worse(worst, notPlaced(placement.MayFit()))
		}
		if !placement.Placed() {
			f.progress.aside(func() { report.Add(placement, before) })
		}
		if len(on) != len(c.Nodes) {
			return nil, nil
		}
		return placement, nil
	})
	if err != nil {
		return err
	}
	report.End()
	return worst
}

// describeNode prints which devices that the node reaches are in use.
func (f *explainFlags) describeNode(c *cluster.Cluster, t *render.Terminal) error {
	pools, err := c.Inventory(c.Node(f.node))
	if err != nil {
		return err
	}
	t.Line("Node " + f.node + " reaches " + render.UsageLine(&usage.Count(c, usage.Inspect(c, pools), usage.ByNode).Total))
	t.Line("")
	return nil
}

// inTurn places the workloads in the order of the scheduling queue. It calls answer for a subject
// before it places the subject's workload. A claim that pods use is answered before the first of
// these pods.
//
// before is the number of workloads that were placed before. known is the placement of a pod of a
// PodGroup, whose pods are placed together. If answer asks all nodes, it returns the placement, so
// that the workload is not placed again.
func (f *explainFlags) inTurn(ctx context.Context, c *cluster.Cluster, subjects []*subject, answer func(s *subject, before int, known *cluster.Placement) (*cluster.Placement, error)) error {
	open := make(map[cluster.Workload]*subject)
	for _, s := range subjects {
		if s.settled == "" {
			open[s.workload] = s
		} else if _, err := answer(s, 0, nil); err != nil {
			return err
		}
	}
	workloads := c.Workloads()
	f.progress = newProgress(f.origin.streams.Err, "asking nodes", len(workloads))
	defer f.progress.done()
	before, groups := 0, c.GangRun(f.named)
	for _, w := range workloads {
		var placement, known *cluster.Placement
		if !f.alone && f.node == "" { // with --alone or --node, each pod is placed by itself
			var err error
			if known, err = groups.Turn(ctx, w, c.Nodes); err != nil {
				return err
			}
		}
		for _, of := range append(c.Used(w), w) {
			s := open[of]
			if s == nil {
				continue
			}
			delete(open, of)
			s.settled = s.state(c) // it may have been allocated meanwhile
			together := known
			if of != w {
				together = nil
			} else if known != nil && known.Placed() {
				s.settled = "gets its devices on node " + known.Node + ", together with the other pods of its PodGroup"
			}
			made, err := answer(s, before, together)
			if err != nil {
				return err
			}
			if of == w {
				placement = made
			}
		}
		if len(open) == 0 {
			break
		}
		if !f.alone {
			var err error
			if known != nil {
				placement = known
			} else if placement, err = c.Take(ctx, w, placement); err != nil {
				return err
			}
			if placement.Placed() {
				before++
			}
		}
		f.progress.step()
	}
	return nil
}

func (f *explainFlags) print(c *cluster.Cluster, answers []*render.Answer, args []string) error {
	if !f.output.format.ForPeople() {
		return f.output.format.Write(f.origin.streams.Out, render.AnswersDocument(answers, len(args) == 1), !f.output.noHeaders)
	}
	f.origin.terminal(f.output).Explain(c, answers[0])
	return nil
}

// verdict returns the error, and with it the exit status, for answers.
func verdict(answers []*render.Answer) error {
	var err error
	for _, a := range answers {
		switch {
		case a.Error != "":
			return errReported
		case !a.Allocated():
			err = worse(err, notPlaced(a.Undecided > 0))
		}
	}
	return err
}
