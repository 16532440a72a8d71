// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/agent/inventory"
)

func newScanCommand() *cobra.Command {
	var flags sourceFlags
	var output string
	command := &cobra.Command{
		Use:   "scan",
		Short: "Print the devices of the node",
		Long: `Print the devices of the node. It needs no cluster.

Exit status: 0, or 1 for wrong usage or after an error.`,
		Example: `  # What this machine has
  dray-agent scan --sysfs --driver pci.example.com --node-name node-1

  # The ResourceSlices that would be published, shown by dray
  dray-agent scan --simulate examples/node.yaml --node-name node-1 -o yaml | dray devices -f -`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if output != "table" && output != "yaml" {
				return fmt.Errorf("--output: %q: must be \"table\" or \"yaml\"", output)
			}
			source, err := flags.source()
			if err != nil {
				return err
			}
			in, err := scan(command.Context(), source)
			if err != nil {
				return err
			}
			for _, driver := range in.Drivers() {
				for _, problem := range in.Unpublished(driver) {
					fmt.Fprintln(command.ErrOrStderr(), "warning:", problem)
				}
			}
			if output == "yaml" {
				return printSlices(command.OutOrStdout(), in, flags.nodeName)
			}
			printTable(command.OutOrStdout(), in)
			return nil
		},
	}
	flags.add(command)
	command.Flags().StringVarP(&output, "output", "o", "table", "`format`: \"table\", or \"yaml\" for ResourceSlices")
	return command
}

// scan returns the first inventory that the source reports.
func scan(ctx context.Context, source inventory.Source) (*inventory.Inventory, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var first *inventory.Inventory
	err := source.Run(ctx, func(in *inventory.Inventory) {
		if first == nil {
			first = in
		}
		cancel()
	})
	if err != nil {
		return nil, fmt.Errorf("scan: %w", err)
	}
	if first == nil {
		return nil, fmt.Errorf("scan: %w", context.Cause(ctx))
	}
	return first, nil
}

func printTable(out io.Writer, in *inventory.Inventory) {
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.SetStyle(plain())
	t.AppendHeader(table.Row{"DRIVER", "DEVICE", "TYPE", "PCI ADDRESS", "PCIE ROOT", "NUMA NODE", "SHARES", "HEALTH"})
	for i := range in.Devices {
		device := &in.Devices[i]
		t.AppendRow(table.Row{
			device.Driver, device.ID.Device, orDash(device.Type), orDash(device.Topology.PCIBusID), orDash(device.Topology.PCIeRoot),
			orDash(numbers(device.Topology.NUMANodes)), max(device.Shares, 1), health(device.Health),
		})
	}
	t.Render()
}

// plain returns the table style of kubectl.
func plain() table.Style {
	style := table.StyleDefault
	style.Options = table.Options{}
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "   "
	return style
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func numbers(all []int) string {
	var out []string
	for _, n := range all {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, ",")
}

func health(h inventory.Health) string {
	switch {
	case !h.Unhealthy:
		return "healthy"
	case h.Reason != "":
		return "unhealthy: " + h.Reason
	default:
		return "unhealthy"
	}
}

// printSlices prints the ResourceSlices that would be published, in the order of pools. The API server makes up names when
// slices are published. These count the slices of a driver.
func printSlices(out io.Writer, in *inventory.Inventory, nodeName string) error {
	list := &resourceapi.ResourceSliceList{TypeMeta: typeMeta("ResourceSliceList")}
	for _, driver := range in.Drivers() {
		pools := in.DriverResources(driver, nil, nil).Pools
		number := 0
		for _, name := range slices.Sorted(maps.Keys(pools)) {
			pool := pools[name]
			for _, slice := range pool.Slices {
				list.Items = append(list.Items, resourceapi.ResourceSlice{
					TypeMeta:   typeMeta("ResourceSlice"),
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%05x-%s-%s", number, driver, nodeName)},
					Spec: resourceapi.ResourceSliceSpec{
						Driver:         driver,
						Pool:           resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: int64(len(pool.Slices))},
						NodeName:       ptr.To(nodeName),
						Devices:        slice.Devices,
						SharedCounters: slice.SharedCounters,
					},
				})
				number++
			}
		}
	}
	text, err := yaml.Marshal(list)
	if err != nil {
		return fmt.Errorf("print ResourceSlices: %w", err)
	}
	_, err = out.Write(text)
	return err
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: kind}
}
