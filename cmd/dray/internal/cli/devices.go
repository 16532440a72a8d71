package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/render"
)

const devicesLong = `List pools and their devices: attributes, who holds them, and what is left of
counters and capacity. Pools from which nothing can be allocated, because slices
are missing or contradict each other, are listed with the reason.

Neighbouring devices that differ in nothing that is shown share a row, and what
all devices of a pool have in common is printed once; -o wide does neither.`

const devicesExample = `  # All pools
  dray devices -f cluster/

  # What one node reaches, with everything there is to say
  dray devices --node gpu-worker-1 -o wide

  # Devices nobody has, for a program
  dray devices -o json | jq '.pools[].devices[] | select(.heldBy == null)'`

type devicesFlags struct {
	origin *origin
	node   string
	output string
}

func newDevices(o *origin) *cobra.Command {
	flags := &devicesFlags{origin: o}
	command := &cobra.Command{
		Use:     "devices",
		Short:   "List pools and devices, who holds them, and what is left",
		Long:    devicesLong,
		Example: devicesExample,
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return checkOutput(flags.output, "wide", "json", "yaml") },
		RunE:    func(command *cobra.Command, _ []string) error { return flags.run(command.Context()) },
	}
	o.addNode(command, &flags.node, "list what this node reaches")
	addOutput(command, &flags.output, "wide", "json", "yaml")
	return command
}

// inventory is the JSON of dray devices.
type inventory struct {
	Node  string              `json:"node,omitempty"`
	Pools []cluster.PoolState `json:"pools"`
}

func (f *devicesFlags) run(ctx context.Context) error {
	c, err := f.origin.load(ctx)
	if err != nil {
		return err
	}
	var node *corev1.Node
	if f.node != "" {
		if node = c.Node(f.node); node == nil {
			return fmt.Errorf("--node %s: there is no such node", f.node)
		}
	}
	states, err := c.Inventory(node)
	if err != nil {
		return err
	}
	switch f.output {
	case "", "wide":
		f.origin.terminal().Inventory(states, f.output == "wide")
		return nil
	}
	if states == nil {
		states = []cluster.PoolState{}
	}
	return render.Encode(f.origin.streams.Out, inventory{f.node, states}, f.output)
}
