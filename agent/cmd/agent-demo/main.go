// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command agent-demo shows the driver side on a real control plane on this machine: the
// simulated hardware of a node is published, a pod's claim is allocated by dray-scheduler
// and prepared through the driver's DRA socket, and a GPU fails.
//
//	main     the command line
//	cluster  dray-agent and the node
//	acts     what is shown, in order
//	objects  what is created in the cluster
package main

import (
	"github.com/spf13/cobra"

	"github.com/dray-project/dray/agent/internal/demo"
)

func main() { demo.Run(newCommand()) }

// settings are what the command line says.
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
