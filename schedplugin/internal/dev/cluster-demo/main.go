// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// The command cluster-demo starts a real control plane on this machine, with dray-scheduler
// and simulated nodes, schedules pods with claims on it, and prints what happens.
//
//	main      the command line
//	cluster   the control plane and what runs beside it
//	fleet     the nodes and what their drivers publish
//	acts      what is shown, in order
//	manifest  objects read from the folder manifests, and created
//	watch     pods that change, and the wait for them
//	board     the table that is printed row by row
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dray-project/dray/internal/dev/controlplane"
)

// settings are what the command line says.
type settings struct {
	binaries  string
	scheduler controlplane.Scheduler
	keep      bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "cluster-demo: interrupted")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "cluster-demo:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	s := settings{scheduler: controlplane.Dray}
	c := &cobra.Command{
		Use:   "cluster-demo",
		Short: "Schedule pods with claims on a real control plane",
		Long: `Starts etcd, kube-apiserver, kube-controller-manager and dray-scheduler on loopback
addresses, registers 20 simulated nodes with eight GPUs each, creates pods with claims,
and prints where they go and which devices they get. Everything is gone afterwards.`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, _ []string) error {
			return s.run(c.Context(), c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&s.binaries, "binaries", "bin", "folder with etcd, kube-apiserver, kube-controller-manager and dray-scheduler")
	c.Flags().Var(&s.scheduler, "scheduler", "plugin that allocates devices: in-tree or dray")
	c.Flags().BoolVar(&s.keep, "keep", false, "leave the control plane running until Ctrl-C, for use with kubectl")
	return c
}
