// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command node-scale measures the resource usage and speed of many simulated nodes: those of
// dray-agent simulate and, if kwok is installed, those of kwok. Each simulator runs with a control
// plane of its own, one after the other, and with the same nodes, ResourceSlices and pods.
//
//	main      the command line
//	subjects  how each simulator is started, and who creates its nodes
//	measure   one simulator, from its start to the last pod
//	load      nodes, slices, claims and pods
//	table     the output
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/internal/demo"
	"github.com/dray-project/dray/internal/dev/controlplane"
)

// settings are the command line flags.
type settings struct {
	binaries string
	kwok     kwok
	nodes    int
	gpus     int
	pods     int
	claims   int
	prepare  bool
	idle     time.Duration
	patience time.Duration
}

func main() { demo.Run(newCommand()) }

func newCommand() *cobra.Command {
	var s settings
	command := &cobra.Command{
		Use:   "node-scale",
		Short: "Measure what many virtual nodes cost, beside kwok's, on a real control plane",
		Args:  cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error {
			return s.run(command.Context(), command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.StringVar(&s.binaries, "binaries", "bin", "`folder` with etcd, kube-apiserver, kube-controller-manager, dray-scheduler and dray-agent")
	flags.StringVar(&s.kwok.program, "kwok", "", "kwok's `program`; without, Dray is measured alone")
	flags.StringVar(&s.kwok.config, "kwok-config", "", "`file` with the stages of kwok's nodes and pods")
	flags.IntVar(&s.nodes, "nodes", 1000, "how many nodes")
	flags.IntVar(&s.gpus, "gpus", 8, "how many GPUs each has")
	flags.IntVar(&s.pods, "pods", 2000, "how many pods without claims, which are bound when they are created")
	flags.IntVar(&s.claims, "claim-pods", 0, "how many pods with a claim for one GPU each, which dray-scheduler binds (default: one for each GPU, at most 1000)")
	flags.BoolVar(&s.prepare, "prepare-claims", true, "have dray-agent simulate prepare claims; kwok does not")
	flags.DurationVar(&s.idle, "idle", 2*time.Minute, "for how long requests are counted while nothing happens")
	flags.DurationVar(&s.patience, "patience", 30*time.Minute, "how long a simulator may take for all of it")
	return command
}

func (s *settings) validate() error {
	if s.claims == 0 {
		s.claims = min(s.nodes*s.gpus, 1000)
	}
	switch {
	case s.nodes < 1 || s.gpus < 1 || s.pods < 1 || s.claims < 1:
		return errors.New("--nodes, --gpus, --pods and --claim-pods: at least 1 is required")
	case s.claims > s.nodes*s.gpus:
		return fmt.Errorf("--claim-pods: %d: there are %d GPUs", s.claims, s.nodes*s.gpus)
	case s.idle <= 0:
		return fmt.Errorf("--idle: %s: must be more than 0", s.idle)
	case s.kwok.program != "" && s.kwok.config == "":
		return errors.New("--kwok needs --kwok-config")
	}
	return nil
}

// run measures each simulator with its own control plane, and prints one table.
func (s *settings) run(ctx context.Context, out, progress io.Writer) error {
	if err := s.validate(); err != nil {
		return err
	}
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	binaries, err := controlplane.BinariesIn(s.binaries)
	if err != nil {
		return fmt.Errorf("%w\n\"make agent controlplane\" builds them; --binaries says where they are", err)
	}
	subjects := []subject{&dray{program: filepath.Join(s.binaries, "dray-agent")}}
	if s.kwok.program != "" {
		subjects = append(subjects, &s.kwok)
	}
	var names []string
	var all []figures
	for _, subject := range subjects {
		options := controlplane.Options{Binaries: binaries, Scheduler: controlplane.Dray, SchedulerVerbosity: 1}
		err := controlplane.Use(ctx, options, func(plane *controlplane.ControlPlane) error {
			timed, cancel := context.WithTimeoutCause(ctx, s.patience, fmt.Errorf("not within %s", s.patience))
			defer cancel()
			m, err := newMeasurement(s, plane, subject, progress)
			if err != nil {
				return err
			}
			found, err := m.run(timed)
			if timed.Err() != nil && ctx.Err() == nil {
				err = errors.Join(err, context.Cause(timed))
			}
			names, all = append(names, subject.name()), append(all, found)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", subject.name(), err)
		}
	}
	_, err = io.WriteString(out, table(s, names, all))
	return err
}
