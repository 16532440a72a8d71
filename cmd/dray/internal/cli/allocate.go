package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/render"
)

const allocateLong = `Place the pending pods that use ResourceClaims, and allocate the claims that no
pending pod uses, one after the other; print node and devices of each.

Pods come in the order of the scheduling queue: priority, then creation time,
else as read. Claims without a pod follow. Each goes to the first node, in the
order read, on which all its claims can be allocated together, and which its
node selector, node affinity, tolerations and already allocated claims permit.
What one takes is in use for the next. CPU, memory, extended resources and other
constraints of pods are not looked at; pods that use no claims are passed over.

With -o json or yaml, the claims are printed as a v1 List, the way the API server
would hold them after scheduling: with status.allocation and status.reservedFor.
Claims that could not be allocated are part of it, without an allocation. Names,
UIDs and share IDs that a cluster would draw at random depend on the input only.

Exit status:
  0  everything is placed
  1  some pod or claim is not placed
  2  wrong usage, or wrong input: an object that is malformed, contradicts
     another or refers to one that does not exist`

const allocateExample = `  # Place what is pending in a folder of manifests
  dray allocate -f examples/single-gpu

  # The allocated claims as YAML
  dray allocate -f examples/mig-partitions -o yaml

  # Would it all fit on one node of the live cluster?
  dray allocate --node gpu-worker-1

  # Manifests from a pipe, together with the nodes and slices of a cluster dump
  kustomize build . | dray allocate -f dump.json -f -

  # As a cluster with a feature switched off would do it
  dray allocate -f cluster/ --feature-gates=DRAPrioritizedList=false`

type allocateFlags struct {
	origin *origin
	node   string
	output string
}

func newAllocate(o *origin) *cobra.Command {
	flags := &allocateFlags{origin: o}
	command := &cobra.Command{
		Use:     "allocate",
		Short:   "Place pending pods and allocate their claims",
		Long:    allocateLong,
		Example: allocateExample,
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return checkOutput(flags.output, "json", "yaml") },
		RunE:    func(command *cobra.Command, _ []string) error { return flags.run(command.Context()) },
	}
	o.addNode(command, &flags.node, "consider this node only")
	addOutput(command, &flags.output, "json", "yaml")
	return command
}

func (f *allocateFlags) run(ctx context.Context) error {
	c, err := f.origin.load(ctx)
	if err != nil {
		return err
	}
	on, err := nodes(c, f.node)
	if err != nil {
		return err
	}
	workloads := c.Workloads()
	if f.origin.namespaceGiven() {
		namespace := f.origin.namespace()
		workloads = slices.DeleteFunc(workloads, func(w cluster.Workload) bool { return w.Key().Namespace != namespace })
	}
	p := newProgress(f.origin.streams.Err, "placing", len(workloads))
	placements, err := c.Run(ctx, workloads, on, p.step)
	p.done()
	if err != nil {
		return err
	}
	if err := f.print(c, placements); err != nil {
		return err
	}
	return outcome(placements)
}

func (f *allocateFlags) print(c *cluster.Cluster, placements []*cluster.Placement) error {
	if f.output != "" {
		for _, line := range render.NotPlaced(placements) {
			fmt.Fprintln(f.origin.streams.Err, line)
		}
		return render.Encode(f.origin.streams.Out, render.Claims(placements), f.output)
	}
	f.origin.terminal().Placements(c, placements)
	return nil
}

// outcome turns what was not placed into the exit status.
func outcome(placements []*cluster.Placement) error {
	var err error
	for _, p := range placements {
		switch {
		case p.Err != nil:
			return errReported
		case !p.Placed():
			err = errNotPlaced
		}
	}
	return err
}

func addOutput(command *cobra.Command, output *string, formats ...string) {
	command.Flags().StringVarP(output, "output", "o", "", fmt.Sprintf("output format, instead of text for people: one of %v", formats))
	// It fails only for flags that do not exist.
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

func checkOutput(output string, formats ...string) error {
	if output == "" || slices.Contains(formats, output) {
		return nil
	}
	return fmt.Errorf("--output %s: want one of %v", output, formats)
}
