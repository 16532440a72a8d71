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
the first. With -v, "not of class" comes with what the class selects.

What comes before it in the order of "dray allocate" is placed first, unless
--alone is given. A claim is looked at by itself, without the pods that use it.

Exit status: 0 if it can be (or is) allocated, 1 if not, 2 for wrong usage or
input.`

const explainExample = `  # Why is this pod pending?
  dray explain trainer-0 -n ml

  # On one node only, in detail
  dray explain trainer-0 -n ml --node gpu-worker-1

  # A claim, by itself
  dray explain claim/shared-gpus -f cluster/

  # For a program
  dray explain trainer-0 -f cluster/ -o json`

type explainFlags struct {
	origin *origin
	node   string
	output string
	alone  bool
}

func newExplain(o *origin) *cobra.Command {
	flags := &explainFlags{origin: o}
	command := &cobra.Command{
		Use:     "explain POD|claim/NAME",
		Short:   "Say why a pod or claim can or cannot be allocated",
		Long:    explainLong,
		Example: explainExample,
		Args:    cobra.ExactArgs(1),
		PreRunE: func(*cobra.Command, []string) error { return checkOutput(flags.output, "json", "yaml") },
		RunE:    func(command *cobra.Command, args []string) error { return flags.run(command.Context(), args[0]) },

		ValidArgsFunction: o.completeSubject,
	}
	o.addNode(command, &flags.node, "look at this node only")
	command.Flags().BoolVar(&flags.alone, "alone", false, "do not place what comes before it first")
	addOutput(command, &flags.output, "json", "yaml")
	return command
}

func (f *explainFlags) run(ctx context.Context, argument string) error {
	c, err := f.origin.load(ctx)
	if err != nil {
		return err
	}
	on, err := nodes(c, f.node)
	if err != nil {
		return err
	}
	answer, err := f.answer(ctx, c, on, argument)
	if err != nil {
		return err
	}
	if f.output != "" {
		if err := render.Encode(f.origin.streams.Out, answer, f.output); err != nil {
			return err
		}
	} else {
		f.origin.terminal().Explain(c, answer)
	}
	switch {
	case answer.Error != "":
		return errReported
	case answer.Node == "" && answer.Settled == "":
		return errNotPlaced
	}
	return nil
}

func (f *explainFlags) answer(ctx context.Context, c *cluster.Cluster, on []*corev1.Node, argument string) (*render.Answer, error) {
	asked, err := find(c, argument, f.origin)
	if err != nil {
		return nil, err
	}
	before := 0
	if !f.alone && asked.settled == "" {
		earlier := asked.before(c)
		before = len(earlier)
		p := newProgress(f.origin.streams.Err, "placing what comes first", before)
		_, err := c.Run(ctx, earlier, c.Nodes, p.step)
		p.done()
		if err != nil {
			return nil, err
		}
	}
	if how := asked.state(c); how != "" {
		return render.SettledAnswer(asked.workload, how, c.ClaimsOf(asked.workload)), nil
	}
	p := newProgress(f.origin.streams.Err, "asking nodes", len(on))
	defer p.done()
	placement, err := c.Survey(ctx, asked.workload, on, p.step)
	if err != nil {
		return nil, err
	}
	return render.NewAnswer(placement, before), nil
}
