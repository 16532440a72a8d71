// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/internal/dev/controlplane"
)

// Loop says what runs.
type Loop struct {
	// Autoscaler is the program of cluster-autoscaler, built with its provider for kwok.
	Autoscaler string
	// Binaries is the folder of what "make controlplane kwok" builds.
	Binaries string
	// Scheduler binds the pods.
	Scheduler controlplane.Scheduler
}

// Result is how a case ended.
type Result struct {
	Case string
	Took time.Duration
	Err  error
}

// Run starts all, runs the cases, and calls a function after each. An error is one of the programs or of the control plane.
func (l Loop) Run(ctx context.Context, ended func(Result)) (err error) {
	if l.Binaries, err = filepath.Abs(l.Binaries); err != nil {
		return err
	}
	binaries, err := controlplane.BinariesIn(l.Binaries)
	if err != nil {
		return fmt.Errorf("make controlplane builds what is needed: %w", err)
	}
	options := controlplane.Options{Binaries: binaries, Scheduler: l.Scheduler, SchedulerVerbosity: 2}
	return controlplane.Use(ctx, options, func(plane *controlplane.ControlPlane) error {
		client, err := kubernetes.NewForConfig(plane.Config())
		if err != nil {
			return err
		}
		c := &cluster{client: client}
		if err := c.prepare(ctx); err != nil {
			return err
		}
		return l.with(plane, c, func() error {
			return c.runAll(ctx, func(result Result) {
				if result.Err != nil {
					result.Err = fmt.Errorf("%w\nlogs are in %s", result.Err, plane.Folder())
					plane.KeepFolder()
				}
				ended(result)
			})
		})
	})
}

// with calls a function while kwok, cluster-autoscaler and the driver run.
func (l *Loop) with(plane *controlplane.ControlPlane, c *cluster, use func() error) (err error) {
	kwok, err := plane.Launch("kwok", filepath.Join(l.Binaries, "kwok"), "--kubeconfig="+plane.Kubeconfig(), "--manage-all-nodes",
		"--config="+filepath.Join(l.Binaries, "kwok.yaml"), "--server-address=")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kwok.Stop()) }()
	autoscaler, err := plane.Launch("cluster-autoscaler", "/usr/bin/env", append([]string{
		"KWOK_PROVIDER_MODE=local", "KUBECONFIG=" + plane.Kubeconfig(), "POD_NAMESPACE=" + systemNamespace, l.Autoscaler,
		"--kubeconfig=" + plane.Kubeconfig(),
	}, autoscalerFlags...)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, autoscaler.Stop()) }()
	stop := c.publishDevices()
	defer func() { err = errors.Join(err, stop()) }()
	err = use()
	return errors.Join(err, kwok.Err(), autoscaler.Err())
}

// autoscalerFlags have cluster-autoscaler wait for nothing that it would wait for in the cloud.
var autoscalerFlags = []string{
	"--cloud-provider=kwok",
	"--leader-elect=false",
	"--address=127.0.0.1:0",
	"--scan-interval=1s",
	"--frequent-loops-enabled=false",
	"--enforce-node-group-min-size",
	"--scale-down-delay-after-add=1s",
	"--scale-down-unneeded-time=3s",
	"--unremovable-node-recheck-timeout=3s",
	"--scale-down-utilization-threshold=0.6",
	"--max-graceful-termination-sec=5",
	"--node-delete-delay-after-taint=0s",
	"--v=2",
}
