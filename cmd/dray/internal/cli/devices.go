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

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/render"
	"github.com/dray-project/dray/cmd/dray/internal/spelling"
	"github.com/dray-project/dray/cmd/dray/internal/usage"
	"github.com/dray-project/dray/cmd/dray/internal/view"
)

const devicesLong = `List pools and their devices: their state, who holds them, and what is left of
counters and capacity. A device is free, used, shared, blocked or unusable. Of a
shared one, more shares may be had. A blocked one is free, but the counters that it
draws on are exhausted. Of an unusable one, slices of its pool are missing or
contradict each other.

On a terminal, neighbouring devices that differ in nothing that is shown share a
row. In a pipe each device has a line with all that is said of it. -o wide adds
attributes, claims and requests. -o svg draws a map of nodes and devices.

Exit status: 0 if they were listed, 2 for wrong usage or input.`

const devicesExample = `  # All pools
  dray devices -f cluster/

  # What one node reaches, with everything there is to say
  dray devices --node gpu-worker-1 -o wide

  # Devices that could be allocated now, by driver
  dray devices --free --driver gpu.example.com

  # A map for a report
  dray devices -f cluster/ -o svg > devices.svg

  # For a program
  dray devices -o json | jq '.pools[].devices[] | select(.heldBy == null)'`

type devicesFlags struct {
	origin *origin
	output *output
	// svg is set for -o svg.
	svg    bool
	watch  bool
	node   string
	driver string
	free   bool
}

func newDevices(o *origin) *cobra.Command {
	flags := &devicesFlags{origin: o, output: &output{}}
	command := &cobra.Command{
		Use:     "devices [POOL...]",
		Short:   "List pools and devices, who holds them, and what is left",
		Long:    devicesLong,
		Example: devicesExample,
		PreRunE: func(*cobra.Command, []string) error { return flags.parse() },
		RunE: func(command *cobra.Command, args []string) error {
			return o.repeat(command.Context(), flags.watch, func(ctx context.Context) error { return flags.run(ctx, args) })
		},
		ValidArgsFunction: o.completePool,
	}
	o.addNode(command, &flags.node, "list what this node reaches")
	command.Flags().StringVar(&flags.driver, "driver", "", "list pools of this driver")
	command.Flags().BoolVar(&flags.free, "free", false, "list devices that could be allocated now: free ones, and those that have shares left")
	_ = command.RegisterFlagCompletionFunc("driver", o.completeDriver) // an error means that the flag does not exist
	addWatch(command, &flags.watch)
	flags.output.addTo(command)
	return command
}

// svgFormat is the value of -o for a drawing of nodes and devices.
const svgFormat = "svg"

func (f *devicesFlags) parse() error {
	if f.svg = f.output.text == svgFormat; !f.svg {
		return f.output.parse()
	}
	if f.watch || f.node != "" || f.driver != "" || f.free {
		return errors.New("--output svg: the drawing shows all devices: it goes without --watch, --node, --driver and --free")
	}
	return nil
}

// draw draws all nodes with their devices.
func (f *devicesFlags) draw(ctx context.Context, c *cluster.Cluster) error {
	name := "the cluster"
	if given := f.origin.terminal(f.output).Flags; given != "" {
		name = strings.TrimSpace(given)
	}
	p, err := view.NewPicture(ctx, c, view.Options{Source: name})
	if err != nil {
		return err
	}
	return view.WriteSVG(f.origin.streams.Out, p)
}

func (f *devicesFlags) run(ctx context.Context, wanted []string) error {
	c, err := f.origin.load(ctx)
	if err != nil {
		return err
	}
	if f.svg {
		if len(wanted) > 0 {
			return errors.New("--output svg: the drawing shows all pools: it has no arguments")
		}
		return f.draw(ctx, c)
	}
	var node *corev1.Node
	if f.node != "" {
		if node = c.Node(f.node); node == nil {
			return noSuchNode(c, f.node)
		}
	}
	states, err := unlessDone(ctx, func() ([]cluster.PoolState, error) { return c.Inventory(node) })
	if err != nil {
		return err
	}
	if states, err = f.choose(states, wanted); err != nil {
		return err
	}
	if f.output.format.ForPeople() {
		t := f.origin.terminal(f.output)
		if f.free && len(states) == 0 {
			t.Line("No device is free.")
		} else {
			t.Inventory(states)
		}
		return nil
	}
	return f.output.format.Write(f.origin.streams.Out, render.InventoryDocument(states), !f.output.noHeaders)
}

// choose returns the pools and devices that the arguments and flags select. A pool is named by its
// name, or by driver and name.
func (f *devicesFlags) choose(states []cluster.PoolState, wanted []string) ([]cluster.PoolState, error) {
	for _, name := range wanted {
		if !slices.ContainsFunc(states, func(s cluster.PoolState) bool { return isCalled(&s, name) }) {
			var names []string
			for i := range states {
				names = append(names, states[i].Pool)
			}
			return nil, fmt.Errorf("pool %s does not exist%s", name, hint(name, names))
		}
	}
	if f.driver != "" && !slices.ContainsFunc(states, func(s cluster.PoolState) bool { return s.Driver == f.driver }) {
		var names []string
		for i := range states {
			names = append(names, states[i].Driver)
		}
		return nil, fmt.Errorf("--driver %s: there is no pool of such a driver%s", f.driver, hint(f.driver, names))
	}
	var chosen []cluster.PoolState
	for i := range states {
		s := states[i]
		asked := len(wanted) == 0 || slices.ContainsFunc(wanted, func(name string) bool { return isCalled(&s, name) })
		if !asked || f.driver != "" && s.Driver != f.driver {
			continue
		}
		if f.free {
			s.Devices = slices.DeleteFunc(slices.Clone(s.Devices), func(d cluster.DeviceState) bool {
				state := s.State(&d)
				return state != "free" && state != "shared"
			})
			if len(s.Devices) == 0 {
				continue
			}
		}
		chosen = append(chosen, s)
	}
	return chosen, nil
}

func isCalled(s *cluster.PoolState, name string) bool {
	return s.Pool == name || s.Driver+"/"+s.Pool == name
}

// hint returns ": did you mean ...?" if a similar name exists, or an empty string.
func hint(given string, names []string) string {
	if text := spelling.DidYouMean(given, names); text != "" {
		return ": " + text
	}
	return ""
}

const usageLong = `Count devices: how many there are, are held, are free, and are stranded. A stranded
device is held by nobody, and no claim could have it now. Its pool cannot be used,
or no node reaches it, or all that do are cordoned. Or it is tainted, or the
counters that it draws on are exhausted. Or all claims and templates that would take
it want several devices of one kind, such as of one PCIe root, and fewer are free.

--by says what devices are counted by. By class, a device counts for each class whose
selectors it matches. By namespace, it counts for each one whose claims share it, and
by workload for each Deployment, Job, ... whose pods do. What belongs nowhere is in
the row "-".
The last row, TOTAL, has each device once.

Exit status: 0 if they were counted, 2 for wrong usage or input.`

const usageExample = `  # How much of each node's devices is in use?
  dray usage

  # Who has how many?
  dray usage --by namespace

  # Which workloads have how many?
  dray usage --by workload

  # How many of each model are left?
  dray usage --by attribute=model

  # Why are free devices of no use? With everything there is to say
  dray usage --by class -o wide -f cluster/

  # For a program
  dray usage --by driver -o json | jq '.items[] | select(.stranded > 0)'`

type usageFlags struct {
	origin *origin
	output *output
	watch  bool
	by     string
}

func newUsage(o *origin) *cobra.Command {
	flags := &usageFlags{origin: o, output: &output{}}
	var by usage.By
	command := &cobra.Command{
		Use:     "usage",
		Short:   "Count devices that are held, free, or free and of no use",
		Long:    usageLong,
		Example: usageExample,
		Args:    noArguments,
		PreRunE: func(*cobra.Command, []string) error {
			return firstError(flags.output.parse, func() (err error) {
				if by, err = usage.ParseBy(flags.by); err != nil {
					return fmt.Errorf("--by %w", err)
				}
				return nil
			})
		},
		RunE: func(command *cobra.Command, _ []string) error {
			return o.repeat(command.Context(), flags.watch, func(ctx context.Context) error { return flags.run(ctx, by) })
		},
	}
	command.Flags().StringVar(&flags.by, "by", string(usage.ByNode), "namespace, workload, node, class, driver or attribute=NAME")
	var values []cobra.Completion
	for _, each := range usage.Bys() {
		if each == usage.ByAttribute {
			each += "="
		}
		values = append(values, string(each))
	}
	// an error means that the flag does not exist
	_ = command.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	addWatch(command, &flags.watch)
	flags.output.addTo(command)
	return command
}

func (f *usageFlags) run(ctx context.Context, by usage.By) error {
	c, err := f.origin.load(ctx)
	if err != nil {
		return err
	}
	report, err := unlessDone(ctx, func() (*usage.Report, error) { return usage.Of(c, by) })
	if err != nil {
		return err
	}
	if f.output.format.ForPeople() {
		f.origin.terminal(f.output).Usage(report)
		return nil
	}
	return f.output.format.Write(f.origin.streams.Out, render.UsageDocument(report), !f.output.noHeaders)
}
