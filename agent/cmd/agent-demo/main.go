// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command agent-demo demonstrates a DRA driver with a real control plane on this machine. Simulated
// hardware of a node is published. dray-scheduler allocates a pod's claim, and the driver prepares
// it through its DRA socket. Then a GPU fails.
//
//	main     the command line
//	cluster  dray-agent and the node
//	acts     the steps, in order
//	objects  what is created in the cluster
package main

import (
	"github.com/spf13/cobra"

	"github.com/dray-project/dray/agent/internal/demo"
)

func main() { demo.Run(newCommand()) }

// settings are the command line flags.
type settings struct {
	demo.Settings
	hardware string
}

func newCommand() *cobra.Command {
	var s settings
	command := &cobra.Command{
		Use:   "agent-demo",
		Short: "Publish, allocate and prepare simulated devices on a real control plane",
		Long: `Starts etcd, kube-apiserver, kube-controller-manager and dray-scheduler on loopback
addresses, and dray-agent with simulated hardware. Creates a pod with a claim, prepares the
claim as a kubelet does, prints the CDI file, and lets a GPU fail. Everything is gone
afterwards.`,
		RunE: func(command *cobra.Command, _ []string) error {
			return s.run(command.Context(), command.OutOrStdout())
		},
	}
	s.Add(command)
	command.Flags().StringVar(&s.hardware, "simulate", "agent/examples/node.yaml", "`file` that describes the node's devices, and when they fail")
	return command
}
