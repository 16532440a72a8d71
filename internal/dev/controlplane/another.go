// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
)

// AnotherOptions describe a scheduler beside the control plane's own.
type AnotherOptions struct {
	// Name is that of its log and its files.
	Name      string
	Scheduler Scheduler
	// Profile is the schedulerName of the pods that it is for.
	Profile string
	// User is whom it acts as.
	User string
	// Lease is the name of the lease in kube-system that it competes for with others. Empty:
	// it schedules at once.
	Lease string
}

// Another is a scheduler beside the control plane's own.
type Another struct {
	plane   *ControlPlane
	running *component
	port    int
}

// StartAnother starts a scheduler, and waits until it is ready, which it is without the
// lease, too. Whoever starts it stops it before the control plane.
func (p *ControlPlane) StartAnother(ctx context.Context, options AnotherOptions) (*Another, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	a := &Another{plane: p, port: ports[0]}
	kubeconfig, err := p.WriteIdentity(options.Name, options.User)
	if err != nil {
		return nil, err
	}
	config, err := p.anotherConfig(options, kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("configure %s: %w", options.Name, err)
	}
	a.running, err = launch(p.folder, options.Name, p.options.Binaries.Scheduler, p.schedulerFlags(a.port, config, kubeconfig))
	if err != nil {
		return nil, err
	}
	if err := a.running.await(ctx, p.ready(a.port, "/readyz")); err != nil {
		return nil, errors.Join(err, a.Kill())
	}
	return a, nil
}

// Stop asks the scheduler to end and waits for it.
func (a *Another) Stop() error { return a.running.terminate() }

// Kill ends the scheduler where it stands, with SIGKILL.
func (a *Another) Kill() error { return a.running.kill() }

// Metrics are what the scheduler serves on /metrics.
func (a *Another) Metrics(ctx context.Context) (string, error) {
	return a.plane.get(ctx, a.port, "/metrics")
}

// anotherConfig writes the configuration file and returns its path.
func (p *ControlPlane) anotherConfig(options AnotherOptions, kubeconfig string) (string, error) {
	mine := p.options
	mine.Scheduler = options.Scheduler
	config, err := mine.schedulerConfiguration()
	if err != nil {
		return "", err
	}
	profiles, _ := config["profiles"].([]any)
	if len(profiles) == 0 {
		profiles = []any{map[string]any{}}
	}
	profile, ok := profiles[0].(map[string]any)
	if !ok {
		return "", fmt.Errorf("the first profile is a %T", profiles[0])
	}
	profile["schedulerName"] = options.Profile
	config["profiles"] = profiles
	return p.writeSchedulerConfig(options.Name, config, kubeconfig, options.Lease)
}
