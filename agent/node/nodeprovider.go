// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// NodeProvider is what a NodeController needs of what stands behind the node.
type NodeProvider interface {
	// Ping returns an error if the node cannot run pods. It is called again and
	// again, and should be quick. No two calls of one controller overlap.
	Ping(ctx context.Context) error

	// NotifyNodeStatus hands over a function that the provider calls whenever the
	// node's status, labels or annotations changed, with the node as it is now. The
	// function does not block, and may be called concurrently. NotifyNodeStatus
	// must not block either.
	NotifyNodeStatus(ctx context.Context, cb func(*corev1.Node))
}

// NaiveNodeProvider is a provider whose node never changes, and is well until its
// context ends.
type NaiveNodeProvider struct{}

// Ping returns the context's error.
func (NaiveNodeProvider) Ping(ctx context.Context) error { return ctx.Err() }

// NotifyNodeStatus ignores the function.
func (n NaiveNodeProvider) NotifyNodeStatus(_ context.Context, _ func(*corev1.Node)) {}

// NaiveNodeProviderV2 is like NaiveNodeProvider, and its node changes by
// UpdateStatus. It is made by NewNaiveNodeProvider, and serves one controller.
type NaiveNodeProviderV2 struct {
	notify chan func(*corev1.Node) // holds the function once it is known
}

// NewNaiveNodeProvider returns a provider for one controller.
func NewNaiveNodeProvider() *NaiveNodeProviderV2 {
	return &NaiveNodeProviderV2{notify: make(chan func(*corev1.Node), 1)}
}

// Ping returns the context's error.
func (*NaiveNodeProviderV2) Ping(ctx context.Context) error { return ctx.Err() }

// NotifyNodeStatus keeps the function for UpdateStatus. The last one counts.
func (n *NaiveNodeProviderV2) NotifyNodeStatus(_ context.Context, f func(*corev1.Node)) {
	for {
		select {
		case n.notify <- f:
			return
		case <-n.notify:
		}
	}
}

// UpdateStatus tells the controller how the node is now. It waits until there is a
// controller, at most until ctx ends, and returns its error then.
func (n *NaiveNodeProviderV2) UpdateStatus(ctx context.Context, node *corev1.Node) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case notify := <-n.notify:
		// Put it back unless a newer one arrived.
		select {
		case n.notify <- notify:
		default:
		}
		notify(node)
		return nil
	}
}
