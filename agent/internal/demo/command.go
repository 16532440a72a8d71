// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Run runs the command line of a demo until it ends or is interrupted, and exits the process.
func Run(command *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command.ExecuteContext(ctx)
	stop()
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(os.Stderr, "%s: interrupted\n", command.Name())
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", command.Name(), err)
		os.Exit(1)
	}
}

// Settings are the flags that all demos have.
type Settings struct {
	Binaries string
	Keep     bool
}

// Add adds the flags to a command.
func (s *Settings) Add(command *cobra.Command) {
	command.Args, command.SilenceErrors, command.SilenceUsage = cobra.NoArgs, true, true
	flags := command.Flags()
	flags.StringVar(&s.Binaries, "binaries", "bin", "`folder` with etcd, kube-apiserver, kube-controller-manager, dray-scheduler, dray-agent and dray")
	flags.BoolVar(&s.Keep, "keep", false, "leave everything running until Ctrl-C, for use with kubectl")
}
