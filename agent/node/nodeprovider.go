// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// NodeProvider tells a NodeController whether the node can run pods, and what its status is.
type NodeProvider interface {
	// Ping returns an error if the node cannot run pods. It is called repeatedly, and should be
	// quick. Calls of one controller do not overlap.
	Ping(ctx context.Context) error

	// NotifyNodeStatus registers a function that the provider calls when status, labels or
	// annotations of the node change, with the new node. The function does not block, and may be
	// called concurrently. NotifyNodeStatus must not block either.
	NotifyNodeStatus(ctx context.Context, cb func(*corev1.Node))
}

// NaiveNodeProvider is a provider of a node that never changes, and is ready until its context
// ends.
type NaiveNodeProvider struct{}

// Ping returns the error of the context.
func (NaiveNodeProvider) Ping(ctx context.Context) error { return ctx.Err() }

// NotifyNodeStatus ignores the function.
func (n NaiveNodeProvider) NotifyNodeStatus(_ context.Context, _ func(*corev1.Node)) {}

// NaiveNodeProviderV2 is a NaiveNodeProvider whose node can be changed by UpdateStatus.
// NewNaiveNodeProvider makes it, and it serves one controller.
type NaiveNodeProviderV2 struct {
	notify chan func(*corev1.Node) // holds the function once it is registered
}

// NewNaiveNodeProvider returns a provider for one controller.
func NewNaiveNodeProvider() *NaiveNodeProviderV2 {
	return &NaiveNodeProviderV2{notify: make(chan func(*corev1.Node), 1)}
}

// Ping returns the error of the context.
func (*NaiveNodeProviderV2) Ping(ctx context.Context) error { return ctx.Err() }

// NotifyNodeStatus registers the function for UpdateStatus. A later call replaces it.
func (n *NaiveNodeProviderV2) NotifyNodeStatus(_ context.Context, f func(*corev1.Node)) {
	for {
		select {
		case n.notify <- f:
			return
		case <-n.notify:
		}
	}
}

// UpdateStatus passes the new node to the controller. It blocks until a controller has called
// NotifyNodeStatus. If ctx ends first, it returns the error of ctx.
func (n *NaiveNodeProviderV2) UpdateStatus(ctx context.Context, node *corev1.Node) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case notify := <-n.notify:
		// Put the function back, unless a newer one was registered meanwhile.
		select {
		case n.notify <- notify:
		default:
		}
		notify(node)
		return nil
	}
}
