// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/render"
)

const allocateLong = `Place the pending pods that use ResourceClaims or extended resources, and allocate
the claims that no pending pod uses, one after the other. Print node and devices of
each. Deployments, Jobs and other objects that make pods stand for their pods.

Pods come in the order of the scheduling queue: priority, then creation time, else
as read. Claims without a pod follow. Each goes to the first node, in the order
read, on which all its claims can be allocated together. Nodes on which all
preferred matches can be had come first, then those that miss least of them. Node
selector, node affinity, tolerations and claims that are allocated already must
permit the node, and it must have the CPU, memory and other resources. What one
takes is in use for the next. Pod affinity, topology spread constraints, host ports
and volumes are not looked at: a pod that has any of them is named. Pods that use
neither claims nor extended resources are passed over.

The pods of a PodGroup have their turn together, when its first pod has. As many of
them as it needs (minCount) are placed, or none. If they do not fit one after the
other, they are looked at together, as by "dray simulate gang".

With -o json or -o yaml, the claims are printed as a v1 List, the way the API server
would hold them after scheduling. They have status.allocation and
status.reservedFor. Claims that could not be allocated are part of it, without an
allocation. Names, UIDs and share IDs that a cluster would draw at random depend on
the input only.

-n, -l and --field-selector choose what is printed, and what decides the exit
status. Everything else takes devices all the same.

Exit status:
  0  everything is placed
  1  some pod or claim is not placed, or there is nothing to place
  2  wrong usage, or wrong input: an object that is malformed, contradicts
     another or refers to one that does not exist
  3  some pod or claim is not placed, but all of these may have a place: the
     search was given up, see --budget`

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
	origin    *origin
	selection *selection
	output    *output
	node      string
}

func newAllocate(o *origin) *cobra.Command {
	flags := &allocateFlags{origin: o, selection: &selection{origin: o}, output: &output{}}
	command := &cobra.Command{
		Use:     "allocate",
		Short:   "Place pending pods and allocate their claims",
		Long:    allocateLong,
		Example: allocateExample,
		Args:    noArguments,
		PreRunE: func(*cobra.Command, []string) error { return firstError(flags.output.parse, flags.selection.parse) },
		RunE:    func(command *cobra.Command, _ []string) error { return flags.run(command.Context()) },
	}
	o.addNode(command, &flags.node, "consider this node only")
	flags.selection.addTo(command.Flags())
	flags.output.addTo(command)
	return command
}

func firstError(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
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
	p := newProgress(f.origin.streams.Err, "placing", len(workloads))
	placements, err := c.Run(ctx, workloads, on, p.step)
	p.done()
	if err != nil {
		return err
	}
	// Workloads that are not selected are placed, too, since they take devices.
	placements = slices.DeleteFunc(placements, func(p *cluster.Placement) bool { return !f.selection.covers(c, p.Workload) })
	if err := f.print(c, placements, len(workloads)); err != nil {
		return err
	}
	return firstError(func() error { return outcome(placements) }, func() error { return f.selection.opaque(c) })
}

// print prints the placements of selected workloads. pending is the number of all pending
// workloads.
func (f *allocateFlags) print(c *cluster.Cluster, placements []*cluster.Placement, pending int) error {
	if n := c.Idle(); n > 0 {
		f.origin.streams.note("passed over: %s without claims and extended resources", render.Count(n, "pod"))
	}
	if f.output.format.ForPeople() {
		t := f.origin.terminal(f.output)
		if len(placements) == 0 && pending > 0 {
			t.NotSelected(pending)
		} else {
			t.Placements(c, placements)
		}
		return nil
	}
	for _, line := range append(render.NotPlaced(c, placements), render.Missed(placements)...) {
		f.origin.streams.note("%s", line)
	}
	if unseen := render.NotLookedAt(c, placements); unseen != "" {
		f.origin.streams.note("%s", unseen)
	}
	return f.output.format.Write(f.origin.streams.Out, render.ClaimsDocument(placements), !f.output.noHeaders)
}

// outcome returns the error, and with it the exit status, for placements that failed.
func outcome(placements []*cluster.Placement) error {
	var err error
	if len(placements) == 0 {
		err = errNotPlaced
	}
	for _, p := range placements {
		switch {
		case p.Err != nil:
			return errReported
		case !p.Placed():
			err = worse(err, notPlaced(p.MayFit()))
		}
	}
	return err
}
