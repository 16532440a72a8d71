// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/schedplugin/internal/dev/nodesim"
)

// run brings a control plane up, shows what there is to show, and takes it down again.
func (s settings) run(ctx context.Context, out io.Writer) error {
	programs, err := controlplane.BinariesIn(s.binaries)
	if err != nil {
		return fmt.Errorf("%w\n\"make controlplane\" builds them; --binaries says where they are", err)
	}
	begin := time.Now()
	options := controlplane.Options{Binaries: programs, Scheduler: s.scheduler, SchedulerVerbosity: 2}
	return controlplane.Use(ctx, options, func(plane *controlplane.ControlPlane) error {
		fmt.Fprintf(out, "The control plane is ready after %.1fs: etcd, kube-apiserver, kube-controller-manager,\n", time.Since(begin).Seconds())
		fmt.Fprintf(out, "and dray-scheduler, in which devices are allocated by %s.\n", s.scheduler.Plugin())
		return s.use(ctx, out, plane)
	})
}

// use plays the nodes of the control plane while the demo is shown.
func (s settings) use(ctx context.Context, out io.Writer, plane *controlplane.ControlPlane) error {
	client, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		return err
	}
	playing, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- nodesim.Run(playing, client) }()
	err = s.show(ctx, out, plane, client)
	cancel()
	return errors.Join(err, <-ended)
}

func (s settings) show(ctx context.Context, out io.Writer, plane *controlplane.ControlPlane, client kubernetes.Interface) error {
	if err := registerFleet(ctx, client); err != nil {
		return err
	}
	fmt.Fprintln(out, fleetSummary)
	if err := play(ctx, out, client); err != nil {
		return err
	}
	if !s.keep {
		return nil
	}
	fmt.Fprintf(out, "\nThe control plane runs until Ctrl-C. In another terminal:\n\n  export KUBECONFIG=%s\n", plane.Kubeconfig())
	<-ctx.Done()
	return nil
}
