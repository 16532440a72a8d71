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

// agent is a node's drivers, with metrics and health, and with pods if it runs them.
type agent struct {
	flags   *runFlags
	client  kubernetes.Interface
	node    *nodedriver.Node
	status  net.Listener // for metrics and health; nil if nobody may ask
	running sync.WaitGroup
}

// run serves until ctx is done, or something ends that must not.
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

// ended is why ctx is done, unless somebody asked for it.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
