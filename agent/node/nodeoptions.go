// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordclientset "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

const (
	// DefaultRenewIntervalFraction is the fraction of a lease's duration after which it is renewed.
	DefaultRenewIntervalFraction = 0.25

	// DefaultLeaseDuration is how long a lease lasts, in seconds. Kubelet has the same default.
	DefaultLeaseDuration = 40
)

const (
	// DefaultPingInterval is the time from the end of a ping to the next one.
	DefaultPingInterval = 10 * time.Second

	// DefaultStatusUpdateInterval is the time between updates of the node's status
	// if nothing changes and there is a lease.
	DefaultStatusUpdateInterval = 1 * time.Minute
)

// ErrConflictingLeaseControllerConfiguration is returned by NewNodeController if
// more than one option asks for a lease.
var ErrConflictingLeaseControllerConfiguration = errors.New("only one option may ask for a lease")

// ErrorHandler handles an error. It returns nil if another attempt may succeed now.
type ErrorHandler func(context.Context, error) error

// NodeControllerOpt configures a NodeController. If two options set the same field, the last one
// counts.
type NodeControllerOpt func(*NodeController) error

// WithNodeEnableLeaseV1 maintains a lease for the node, and renews it when a quarter of its
// duration is over. The duration is in seconds; 0 stands for DefaultLeaseDuration. The client must
// be that of the namespace kube-node-lease.
func WithNodeEnableLeaseV1(client coordclientset.LeaseInterface, leaseDurationSeconds int32) NodeControllerOpt {
	seconds := leaseDurationSeconds
	if seconds == 0 {
		seconds = DefaultLeaseDuration
	}
	interval := time.Duration(float64(seconds) * DefaultRenewIntervalFraction * float64(time.Second))
	return WithNodeEnableLeaseV1WithRenewInterval(client, seconds, interval)
}

// WithNodeEnableLeaseV1WithRenewInterval is WithNodeEnableLeaseV1 with another interval,
// which must be shorter than the duration.
func WithNodeEnableLeaseV1WithRenewInterval(client coordclientset.LeaseInterface, leaseDurationSeconds int32, interval time.Duration) NodeControllerOpt {
	seconds := leaseDurationSeconds
	if seconds == 0 {
		seconds = DefaultLeaseDuration
	}
	return func(n *NodeController) error {
		switch {
		case client == nil:
			return errors.New("lease: a client is required")
		case n.lease != nil:
			return ErrConflictingLeaseControllerConfiguration
		case seconds < 0:
			return fmt.Errorf("lease: duration of %d seconds: must not be negative", seconds)
		case interval <= 0 || interval >= time.Duration(seconds)*time.Second:
			return fmt.Errorf("lease: renewed after %s: must be more than 0 and less than its duration of %d seconds", interval, seconds)
		}
		n.lease = &nodeLease{client: client, seconds: seconds, interval: interval, clock: n.clock}
		return nil
	}
}

// WithNodePingInterval sets the time from the end of a ping to the next one, and, if the
// node has no lease, the time between updates of its status. 0 stands for
// DefaultPingInterval.
func WithNodePingInterval(d time.Duration) NodeControllerOpt {
	return func(n *NodeController) error {
		if d < 0 {
			return fmt.Errorf("ping interval %s: must not be negative", d)
		}
		n.ping.interval = d
		return nil
	}
}

// WithNodePingTimeout sets how long a ping may take before it counts as failed. Its context is
// cancelled then. Without this option, there is no timeout.
func WithNodePingTimeout(timeout time.Duration) NodeControllerOpt {
	return func(n *NodeController) error {
		if timeout <= 0 {
			return fmt.Errorf("ping timeout %s: must be more than 0", timeout)
		}
		n.ping.timeout = timeout
		return nil
	}
}

// WithNodeStatusUpdateErrorHandler sets the handler of errors of the API server when the node's
// status is written. If the handler returns nil, the status is written again at once, otherwise
// later.
//
// Without this option, a node that was deleted is created again. With it, that is left to the
// handler.
func WithNodeStatusUpdateErrorHandler(h ErrorHandler) NodeControllerOpt {
	return func(n *NodeController) error {
		n.onStatusError = h
		return nil
	}
}

// WithNodeStatusUpdateInterval sets the time between updates of the node's status if
// nothing changes, for a node with a lease. 0 stands for DefaultStatusUpdateInterval.
// Without a lease, the status is written after each ping interval.
func WithNodeStatusUpdateInterval(d time.Duration) NodeControllerOpt {
	return func(n *NodeController) error {
		if d < 0 {
			return fmt.Errorf("status update interval %s: must not be negative", d)
		}
		n.statusInterval = d
		return nil
	}
}
