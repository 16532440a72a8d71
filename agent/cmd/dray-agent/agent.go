// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"sync"

	"k8s.io/client-go/kubernetes"

	"github.com/dray-project/dray/agent/nodedriver"
)

// agent runs a node's drivers, with metrics and health endpoints. It also runs pods if a flag says
// so.
type agent struct {
	flags   *runFlags
	client  kubernetes.Interface
	node    *nodedriver.Node
	status  net.Listener // listener for metrics and health; nil if they are not served
	running sync.WaitGroup
}

// run serves until ctx is done, or one of its parts fails.
func (a *agent) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.serveStatus(ctx, cancel)
	if a.flags.pods {
		if err := a.startNode(ctx, cancel); err != nil || ctx.Err() != nil {
			cancel(err)
			a.running.Wait()
			return err
		}
	}
	err := a.node.Run(ctx)
	err = errors.Join(err, ended(ctx))
	cancel(nil)
	a.running.Wait()
	return err
}

// ended returns why ctx was cancelled, or nil if that was requested.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
