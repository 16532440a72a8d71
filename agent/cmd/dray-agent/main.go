// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command dray-agent finds the devices of a node, publishes them as ResourceSlices,
// and serves them to kubelet through Dynamic Resource Allocation and the device
// plugin interface.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"

	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/provider/process"
	"github.com/dray-project/dray/agent/sysfs"
	"github.com/dray-project/dray/internal/manual"
)

func main() {
	process.Main() // this program is also the supervisor of pods that it runs as processes
	os.Exit(cli.Run(newCommand()))
}

func newCommand() *cobra.Command {
	command := &cobra.Command{
		Use:     "dray-agent",
		Short:   "Find the devices of a node, publish them, and serve them to kubelet",
		Version: version(),
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	command.AddCommand(newRunCommand(), newScanCommand(), newSimulateCommand(), manual.NewCommand())
	return command
}

// access says how to reach the API server: as a kubeconfig says, or as a pod does if there is none.
func access(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig is missing, and this is no pod: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return config, nil
}

// sourceFlags select the source of devices.
type sourceFlags struct {
	simulate string
	sysfs    string
	driver   string
	nodeName string
}

func (f *sourceFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.simulate, "simulate", "", "take devices from this YAML `file`, and let them fail as its script says")
	flags.StringVar(&f.sysfs, "sysfs", "", "find devices in sysfs, in the file system with this `root`")
	flags.Lookup("sysfs").NoOptDefVal = "/"
	flags.StringVar(&f.driver, "driver", "", "`name` of the DRA driver of devices in sysfs, a DNS subdomain")
	flags.StringVar(&f.nodeName, "node-name", os.Getenv("NODE_NAME"), "`name` of the node, which is that of its pool of devices, too (default $NODE_NAME)")
	command.MarkFlagsOneRequired("simulate", "sysfs")
	command.MarkFlagsMutuallyExclusive("simulate", "sysfs")
	command.MarkFlagsRequiredTogether("sysfs", "driver")
}

func (f *sourceFlags) source() (inventory.Source, error) {
	if f.nodeName == "" {
		return nil, errors.New("the name of the node is required: give --node-name, or set NODE_NAME")
	}
	if problems := validation.IsDNS1123Subdomain(f.nodeName); len(problems) > 0 {
		return nil, fmt.Errorf("--node-name: %q: %s", f.nodeName, strings.Join(problems, "; "))
	}
	if f.simulate != "" {
		simulation, err := inventory.ReadSimulation(f.simulate, f.nodeName)
		if err != nil {
			return nil, fmt.Errorf("--simulate: %w", err)
		}
		return simulation, nil
	}
	return sysfs.New(sysfs.Options{Root: f.sysfs, Driver: f.driver, Pool: f.nodeName}), nil
}
