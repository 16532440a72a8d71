// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command loop-demo shows the whole loop on one machine: a real control plane, a virtual
// node whose simulated GPUs dray-agent publishes and whose pods are processes, and 50
// simulated nodes. Deployments get devices, a GPU fails, its pod is replaced, and in the
// end nothing is held, prepared or left.
//
//	main     the command line
//	acts     what is shown, in order
//	objects  what is created in the cluster, and the hardware of the node
//	look     what pods and devices are like, and what is left of them
package main

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/dray-project/dray/agent/internal/demo"
)

// leftPatience is how long controllers may take to delete what belonged to pods.
const leftPatience = 2 * time.Minute

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

// show brings everything up, shows what there is to show, and takes it down again.
func show(ctx context.Context, out io.Writer, settings demo.Settings) error {
	return settings.Show(ctx, out, func(under *demo.Stage) []demo.Act {
		return (&stage{Stage: under, folder: under.Plane.Folder(), patience: leftPatience}).acts()
	})
}

// stage has one node, and where things are on it.
type stage struct {
	*demo.Stage
	folder  string    // of the node, in place of the machine's root
	all     []trainer // that ran at some time
	failing trainer   // whose GPU fails
	// patience is how long it may take until nothing is left.
	patience time.Duration
}

// kubeletDir and cdiDir are the node's /var/lib/kubelet and /var/run/cdi. Paths of sockets
// must be short.
func (s *stage) kubeletDir() string { return filepath.Join(s.folder, "node") }
func (s *stage) cdiDir() string     { return filepath.Join(s.folder, "cdi") }
func (s *stage) hardware() string   { return filepath.Join(s.folder, "hardware.yaml") }
