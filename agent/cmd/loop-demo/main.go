// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command loop-demo demonstrates the life cycle of devices on one machine. It runs a real control
// plane, 50 simulated nodes, and a virtual node with simulated GPUs whose pods are processes.
// Deployments get devices, a GPU fails, and its pod is replaced. In the end, the demo checks that
// nothing remains allocated or prepared.
//
//	main     the command line
//	acts     the steps, in order
//	objects  what is created in the cluster, and the hardware of the node
//	look     inspects pods and devices, and what remains of them
package main

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/dray-project/dray/agent/internal/demo"
)

// leftTimeout is how long controllers may take to delete what belonged to pods.
const leftTimeout = 2 * time.Minute

func main() { demo.Run(newCommand()) }

func newCommand() *cobra.Command {
	var settings demo.Settings
	command := &cobra.Command{
		Use:   "loop-demo",
		Short: "Show the whole loop, from devices to processes that use them, on a real control plane",
		Long: `Starts etcd, kube-apiserver, kube-controller-manager and dray-scheduler on loopback
addresses, dray-agent with simulated GPUs and a virtual node, and 50 simulated nodes.
Deployments with claims are placed on them; on the virtual node, their containers run as
processes that print their device. A GPU fails, and the Deployment gets another pod with
another GPU. Everything is scaled down, and it is an error if anything is left of it.`,
		RunE: func(command *cobra.Command, _ []string) error {
			return show(command.Context(), command.OutOrStdout(), settings)
		},
	}
	settings.Add(command)
	return command
}

// show starts everything, plays the demo, and stops everything.
func show(ctx context.Context, out io.Writer, settings demo.Settings) error {
	return settings.Show(ctx, out, func(under *demo.Stage) []demo.Act {
		return (&stage{Stage: under, folder: under.Plane.Folder(), timeout: leftTimeout}).acts()
	})
}

// stage is the demo's control plane with its node.
type stage struct {
	*demo.Stage
	folder  string    // root of the node's files
	all     []trainer // all trainers that have run
	failing trainer   // the trainer whose GPU fails
	// timeout is how long cleanup may take.
	timeout time.Duration
}

// kubeletDir and cdiDir stand for the node's /var/lib/kubelet and /var/run/cdi. They are short,
// because paths of sockets must be.
func (s *stage) kubeletDir() string { return filepath.Join(s.folder, "node") }
func (s *stage) cdiDir() string     { return filepath.Join(s.folder, "cdi") }
func (s *stage) hardware() string   { return filepath.Join(s.folder, "hardware.yaml") }
