// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// PauseAPIServer stops the API server where it stands, with SIGSTOP: connections stay open, and
// nothing answers.
func (p *ControlPlane) PauseAPIServer() error { return p.apiServer.signal(syscall.SIGSTOP) }

// ContinueAPIServer lets a paused API server go on, and waits until it is ready.
func (p *ControlPlane) ContinueAPIServer(ctx context.Context) error {
	if err := p.apiServer.signal(syscall.SIGCONT); err != nil {
		return err
	}
	return p.apiServer.await(ctx, p.ready(p.ports.apiServer, "/readyz"))
}

// KillEtcd ends etcd where it stands, with SIGKILL. Its data stay.
func (p *ControlPlane) KillEtcd() error { return p.etcd.kill() }

// StartEtcd starts etcd after it was killed, and waits until the API server is ready again.
func (p *ControlPlane) StartEtcd(ctx context.Context) error {
	if !p.etcd.gone() {
		return errors.New("start etcd: it is running")
	}
	if err := p.launchEtcd(ctx); err != nil {
		return err
	}
	return p.apiServer.await(ctx, p.ready(p.ports.apiServer, "/readyz"))
}

func (c *component) signal(signal syscall.Signal) error {
	if err := c.command.Process.Signal(signal); err != nil {
		return fmt.Errorf("send %v to %s: %w", signal, c.name, err)
	}
	return nil
}
