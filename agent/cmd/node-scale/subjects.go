// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/internal/dev/controlplane"
)

// subject is a simulator of nodes.
type subject interface {
	name() string
	// start starts the simulator, and creates nodes and slices if the simulator does not.
	// Afterwards, the caller waits for the nodes.
	start(ctx context.Context, s *settings, plane *controlplane.ControlPlane, client kubernetes.Interface) (*controlplane.Program, error)
}

// dray is dray-agent simulate, which creates nodes and ResourceSlices itself.
type dray struct{ program string }

func (*dray) name() string { return "dray-agent simulate" }

func (d *dray) start(_ context.Context, s *settings, plane *controlplane.ControlPlane, _ kubernetes.Interface) (*controlplane.Program, error) {
	// no rate limit, as for the other simulator
	return plane.Launch("dray-agent", d.program, "simulate", "--kubeconfig="+plane.Kubeconfig(), fmt.Sprintf("--nodes=%d", s.nodes),
		"--prefix="+nodePrefix, "--driver="+driverName, fmt.Sprintf("--gpus=%d", s.gpus), "--lease-duration=40", "--qps=10000", "--report=0",
		fmt.Sprintf("--prepare-claims=%t", s.prepare))
}

// kwok sets nodes ready that this program has created. It ignores claims and ResourceSlices: a pod
// with claims runs as soon as it is bound.
type kwok struct{ program, config string }

func (*kwok) name() string { return "kwok" }

func (k *kwok) start(ctx context.Context, s *settings, plane *controlplane.ControlPlane, client kubernetes.Interface) (*controlplane.Program, error) {
	config, err := filepath.Abs(k.config) // kwok's folder is another one
	if err != nil {
		return nil, err
	}
	program, err := plane.Launch("kwok", k.program, "--kubeconfig="+plane.Kubeconfig(), "--manage-all-nodes", "--node-lease-duration-seconds=40",
		"--config="+config, "--server-address=")
	if err != nil {
		return nil, err
	}
	return program, createNodes(ctx, client, s)
}
