// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation"
	v1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// reasonPingFailed is the reason of the condition Ready of a node whose provider does
// not answer.
const reasonPingFailed = "ProviderPingFailed"

// NodeController creates one Node, and keeps its status and its lease up to date. Its methods may
// be called concurrently.
type NodeController struct {
	provider       NodeProvider
	nodes          v1.NodeInterface
	ping           pinger
	lease          *nodeLease // nil: none
	statusInterval time.Duration
	onStatusError  ErrorHandler // nil: create the node again
	// clock gives the timestamps in the node. It may jump; pauses use the monotonic clock.
	clock clock.PassiveClock

	lifecycle

	// fromProvider is the node as the provider wants it. Only the goroutine of Run accesses it.
	fromProvider *corev1.Node

	mu       sync.Mutex
	stored   *corev1.Node  // the latest version from the API server
	notified *corev1.Node  // the provider's latest update; nil if it was applied to fromProvider
	changed  chan struct{} // gets a value when notified is set
}

// NewNodeController returns a controller of a node. It does nothing before Run. The node is the
// object to create, and is not modified. Its name must be a DNS subdomain.
func NewNodeController(p NodeProvider, node *corev1.Node, nodes v1.NodeInterface, opts ...NodeControllerOpt) (*NodeController, error) {
	switch {
	case p == nil:
		return nil, errors.New("node controller: a provider is required")
	case node == nil:
		return nil, errors.New("node controller: a node is required")
	case nodes == nil:
		return nil, fmt.Errorf("node controller: node %s: a client is required", node.Name)
	}
	if problems := validation.IsDNS1123Subdomain(node.Name); len(problems) > 0 {
		return nil, fmt.Errorf("node controller: node %q: name: %s", node.Name, strings.Join(problems, "; "))
	}
	n := &NodeController{
		provider:     p,
		nodes:        nodes,
		ping:         pinger{provider: p, changed: make(chan struct{}, 1)},
		lifecycle:    newLifecycle(),
		clock:        clock.RealClock{},
		fromProvider: node.DeepCopy(),
		stored:       node.DeepCopy(),
		changed:      make(chan struct{}, 1),
	}
	for _, opt := range opts {
		if err := opt(n); err != nil {
			return nil, fmt.Errorf("node controller: node %s: %w", node.Name, err)
		}
	}
	if n.ping.interval == 0 {
		n.ping.interval = DefaultPingInterval
	}
	if n.statusInterval == 0 {
		n.statusInterval = DefaultStatusUpdateInterval
	}
	return n, nil
}

// Run creates the node, or adopts an existing one, and updates its status and lease until ctx ends.
// It then returns nil. It returns an error if the first ping fails, if the node cannot be created,
// if the provider panics, or if Run was called before.
//
// The status is written when the provider reports a change, and at an interval, which may be long
// for a node with a lease. While pings fail, neither status nor lease is written, except the
// condition Ready, which becomes False and says why. The node and its lease remain when Run
// returns.
func (n *NodeController) Run(ctx context.Context) (retErr error) {
	if !n.start() {
		return fmt.Errorf("node controller: node %s: Run was called before", n.fromProvider.Name)
	}
	defer func() { n.end(retErr) }()
	if err := n.run(ctx); err != nil {
		return fmt.Errorf("node controller: node %s: %w", n.fromProvider.Name, err)
	}
	return nil
}

func (n *NodeController) run(parent context.Context) error {
	ctx, stop := context.WithCancelCause(parent)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop(nil)
	if err := guard("NotifyNodeStatus", func() error { n.provider.NotifyNodeStatus(ctx, n.notify); return nil }); err != nil {
		return err
	}
	group.Go(func() {
		if err := n.ping.run(ctx); err != nil {
			stop(err)
		}
	})
	if err := n.register(ctx); err != nil || ctx.Err() != nil {
		return runError(parent, ctx, err)
	}
	if n.lease != nil {
		group.Go(func() { n.lease.run(ctx, n.alive) })
	}
	n.markReady()
	n.keepStatus(ctx)
	return runError(parent, ctx, nil)
}

// runError returns the error of a run: nil if the caller's context, parent, ended; otherwise the
// cause with which the controller cancelled its own context, ctx; otherwise err.
func runError(parent, ctx context.Context, err error) error {
	if parent.Err() != nil {
		return nil //nolint:nilerr // cancellation is no error
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// notify stores an update from the provider. A later one replaces it.
func (n *NodeController) notify(node *corev1.Node) {
	if node == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notified = node.DeepCopy()
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// applyNotified copies the latest update from the provider to fromProvider.
func (n *NodeController) applyNotified() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.notified == nil {
		return
	}
	n.fromProvider.Status = n.notified.Status
	n.fromProvider.Labels = n.notified.Labels
	n.fromProvider.Annotations = n.notified.Annotations
	n.notified = nil
}

// alive returns the node whose lease is to be renewed, and whether its provider answers pings.
func (n *NodeController) alive() (*corev1.Node, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stored, n.ping.failure() == nil
}

// register waits for the first ping, and creates the node or adopts an existing one.
func (n *NodeController) register(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-n.ping.changed:
	}
	if err := n.ping.failure(); err != nil {
		return fmt.Errorf("not registered, because the provider's ping failed: %w", err)
	}
	for retry := firstRetry; ; retry = min(2*retry, n.ping.interval) {
		n.applyNotified()
		err := n.write(ctx)
		if apierrors.IsNotFound(err) {
			err = n.create(ctx)
		}
		switch {
		case err == nil:
			return nil
		case !isRetriable(err):
			return fmt.Errorf("register: %w", err)
		case !sleep(ctx, retry):
			return nil
		}
		klog.FromContext(ctx).Error(err, "Node was not registered, and is again", "node", n.fromProvider.Name)
	}
}

// isRetriable tells whether the same request may succeed later. It may if the API server says so,
// if it was not reached, or after a conflict.
func isRetriable(err error) bool {
	var unreached net.Error
	return errors.As(err, &unreached) || utilnet.IsProbableEOF(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsConflict(err) ||
		apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// keepStatus writes the status at each change and at the interval, until ctx ends.
func (n *NodeController) keepStatus(ctx context.Context) {
	interval := n.statusInterval
	if n.lease == nil {
		interval = n.ping.interval
	}
	retry := firstRetry
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.changed:
			if n.ping.failure() != nil {
				continue
			}
		case <-n.ping.changed:
		case <-timer.C:
			// While pings fail, the status is not written again once it says so.
			if n.ping.failure() != nil && retry == firstRetry {
				timer.Reset(interval)
				continue
			}
		}
		n.applyNotified()
		pause := interval
		if err := n.update(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Status of the node was not written", "node", n.fromProvider.Name)
			pause, retry = min(retry, interval), min(2*retry, interval)
		} else {
			retry = firstRetry
		}
		timer.Reset(pause)
	}
}

// update writes the status. It writes once more if the error was handled, for instance if the node
// was created again.
func (n *NodeController) update(ctx context.Context) error {
	err := n.write(ctx)
	switch {
	case err == nil:
		return nil
	case n.onStatusError != nil:
		if err := n.onStatusError(ctx, err); err != nil {
			return err
		}
		return n.write(ctx)
	case apierrors.IsNotFound(err):
		if err := n.create(ctx); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return n.write(ctx)
	}
	return err
}

// write patches the status of the node in the API server. It returns errors of the API server
// unchanged.
func (n *NodeController) write(ctx context.Context) error {
	stored, err := n.nodes.Get(ctx, n.fromProvider.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	patch, err := statusPatch(n.desired(), stored)
	if err != nil {
		return err
	}
	patched, err := n.nodes.Patch(ctx, stored.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	n.store(patched)
	return nil
}

// create creates the node with all fields that the caller of NewNodeController gave.
func (n *NodeController) create(ctx context.Context) error {
	node := n.desired()
	want, err := wanted(node)
	if err != nil {
		return err
	}
	node.Annotations = want.Metadata.Annotations
	node.UID, node.ResourceVersion = "", ""
	created, err := n.nodes.Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	n.store(created)
	return nil
}

func (n *NodeController) store(node *corev1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stored = node
}

// desired returns the node to write now. The heartbeats of its conditions are the current time. If
// the provider does not answer pings, the node is not ready.
func (n *NodeController) desired() *corev1.Node {
	node := n.fromProvider.DeepCopy()
	now := metav1.NewTime(n.clock.Now())
	if err := n.ping.failure(); err != nil {
		setNotReady(node, err, now)
	}
	for i := range node.Status.Conditions {
		node.Status.Conditions[i].LastHeartbeatTime = now
	}
	return node
}

func setNotReady(node *corev1.Node, why error, now metav1.Time) {
	ready := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if ready < 0 {
		ready = len(node.Status.Conditions)
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady})
	}
	condition := &node.Status.Conditions[ready]
	condition.Status = corev1.ConditionFalse
	condition.Reason = reasonPingFailed
	condition.Message = why.Error()
	condition.LastTransitionTime = now
}
