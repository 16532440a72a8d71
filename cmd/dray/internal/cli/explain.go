package cli

import (
	"context"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/render"
)

const explainLong = `Say why a pod or claim can or cannot be allocated.

For each kind of refusal, beginning with what comes closest: how many nodes
refuse, which requests and constraints cannot hold together, how many devices each
request reaches and what rejects the others, and what would have to change least.
If the pod or claim can be allocated: on which nodes, and with which devices on
the first.

Without arguments, all pending pods and claims are looked at, and those which
cannot be placed are explained; pods that fail alike, once. KIND/NAME, such as
deployment/trainer, stands for the pods that the object makes.

What comes before it in the order of "dray allocate" is placed first, unless
--alone is given. A claim is looked at by itself, without the pods that use it.

Exit status: 0 if it can be (or is) allocated, 1 if not, 2 for wrong usage or
input.`

const explainExample = `  # Why is anything pending in this namespace?
  dray explain

  # Why is this pod pending?
  dray explain trainer-0 -n ml

  # On one node only, in detail
  dray explain trainer-0 -n ml --node gpu-worker-1

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
}

func newExplain(o *origin) *cobra.Command {
	flags := &explainFlags{origin: o, selection: &selection{origin: o}, output: &output{}}
	command := &cobra.Command{
		Use:     "explain [POD|claim/NAME|KIND/NAME]...",
		Short:   "Say why pods or claims can or cannot be allocated",
		Long:    explainLong,
		Example: explainExample,
		PreRunE: func(*cobra.Command, []string) error { return firstError(flags.output.parse, flags.selection.parse) },
		RunE: func(command *cobra.Command, args []string) error {
			return o.repeat(command.Context(), flags.watch, func(ctx context.Context) error { return flags.run(ctx, args) })
		},

		ValidArgsFunction: o.completeSubject,
	}
	o.addNode(command, &flags.node, "look at this node only")
	command.Flags().BoolVar(&flags.alone, "alone", false, "do not place what comes before it first")
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
	on, err := nodes(c, f.node)
	if err != nil {
		return err
	}
	subjects, err := f.subjects(c, args)
	if err != nil {
		return err
	}
	answers, err := f.answers(ctx, c, on, subjects)
	if err != nil {
		return err
	}
	if err := f.print(c, answers, args); err != nil {
		return err
	}
	return verdict(answers)
}

// subjects are those named, or else all pending workloads.
func (f *explainFlags) subjects(c *cluster.Cluster, args []string) ([]*subject, error) {
	var subjects []*subject
	for _, argument := range args {
		found, err := find(c, argument, f.origin)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, found...)
	}
	if len(args) > 0 {
		return subjects, nil
	}
	for _, w := range c.Workloads() {
		if f.selection.covers(c, w) {
			subjects = append(subjects, &subject{workload: w})
		}
	}
	return subjects, nil
}

// answers goes through the workloads in their order, places each, and answers for a subject
// when its turn has come. A claim that pods use comes before the first of them.
func (f *explainFlags) answers(ctx context.Context, c *cluster.Cluster, on []*corev1.Node, subjects []*subject) ([]*render.Answer, error) {
	answers := make([]*render.Answer, len(subjects))
	left := 0
	for i, s := range subjects {
		if s.settled != "" {
			answers[i] = render.SettledAnswer(s.workload, s.settled, c.ClaimsOf(s.workload))
		} else {
			left++
		}
	}
	workloads := c.Workloads()
	p := newProgress(f.origin.streams.Err, "asking nodes", len(workloads))
	defer p.done()
	for before, w := range workloads {
		if left == 0 {
			break
		}
		for i, s := range subjects {
			if answers[i] != nil || !c.Uses(w, s.workload) {
				continue
			}
			left--
			if how := s.state(c); how != "" {
				answers[i] = render.SettledAnswer(s.workload, how, c.ClaimsOf(s.workload))
				continue
			}
			placement, err := c.Survey(ctx, s.workload, on, nil)
			if err != nil {
				return nil, err
			}
			if f.alone {
				before = 0
			}
			answers[i] = render.NewAnswer(c, placement, before)
		}
		if left > 0 && !f.alone {
			if _, err := c.Run(ctx, []cluster.Workload{w}, c.Nodes, nil); err != nil {
				return nil, err
			}
		}
		p.step()
	}
	return answers, nil
}

func (f *explainFlags) print(c *cluster.Cluster, answers []*render.Answer, args []string) error {
	if !f.output.format.ForPeople() {
		return f.output.format.Write(f.origin.streams.Out, render.AnswersDocument(answers, len(args) == 1), !f.output.noHeaders)
	}
	t := f.origin.terminal(f.output)
	if pending := len(c.Workloads()); len(answers) == 0 && pending > 0 {
		t.NotSelected(pending)
		return nil
	}
	if len(answers) == 0 {
		t.Line("Nothing is pending that asks for devices.")
		return nil
	}
	if len(args) == 1 && len(answers) == 1 {
		t.Explain(c, answers[0])
		return nil
	}
	t.Many(c, answers)
	return nil
}

// verdict turns answers into the exit status.
func verdict(answers []*render.Answer) error {
	var err error
	for _, a := range answers {
		switch {
		case a.Error != "":
			return errReported
		case !a.Allocated():
			err = errNotPlaced
		}
	}
	return err
}
