// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordclientset "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// firstRetry is the pause before a lease, or a status, is written again after a
// failure. It doubles each time, up to the interval at which it is written anyway.
const firstRetry = 200 * time.Millisecond

// nodeLease renews the lease of a node, by which the node lifecycle controller knows
// that the node is alive (KEP-589).
type nodeLease struct {
	client   coordclientset.LeaseInterface
	seconds  int32
	interval time.Duration
	clock    clock.PassiveClock // for what is written; pauses are by the monotonic clock

	last *coordinationv1.Lease // as the API server has it, if known
}

// run renews the lease until ctx ends. alive tells whether the node is well and who it is;
// as long as it is not well, the lease is left to expire.
func (l *nodeLease) run(ctx context.Context, alive func() (*corev1.Node, bool)) {
	retry := firstRetry
	for {
		pause := l.interval
		if node, ok := alive(); ok {
			if err := l.renew(ctx, node); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Lease was not renewed", "node", node.Name)
				pause, retry = min(retry, l.interval), min(2*retry, l.interval)
			} else {
				retry = firstRetry
			}
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// renew writes the lease once. What it knows of the lease may be outdated, so that it
// looks and writes a second time.
func (l *nodeLease) renew(ctx context.Context, node *corev1.Node) error {
	if l.last != nil {
		err := l.update(ctx, node)
		if err == nil {
			return nil
		}
		l.last = nil
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("lease of node %s: %w", node.Name, err)
		}
	}
	stored, err := l.client.Get(ctx, node.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		l.last = stored
		err = l.update(ctx, node)
	case apierrors.IsNotFound(err):
		l.last, err = l.client.Create(ctx, l.renewed(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, node), metav1.CreateOptions{})
	}
	if err != nil {
		l.last = nil
		return fmt.Errorf("lease of node %s: %w", node.Name, err)
	}
	return nil
}

func (l *nodeLease) update(ctx context.Context, node *corev1.Node) error {
	updated, err := l.client.Update(ctx, l.renewed(l.last, node), metav1.UpdateOptions{})
	if err == nil {
		l.last = updated
	}
	return err
}

// renewed is the lease from now on. Its time of renewal never goes back, though the clock of
// the machine may: the node lifecycle controller takes no notice of a renewal that is
// not later than the one that it knows. Its owner is the node as it is now: one that was
// deleted and created again is another object, and the garbage collector deletes what
// belongs to the old one.
func (l *nodeLease) renewed(lease *coordinationv1.Lease, node *corev1.Node) *coordinationv1.Lease {
	renewed := lease.DeepCopy()
	renewed.Spec.HolderIdentity = ptr.To(node.Name)
	renewed.Spec.LeaseDurationSeconds = ptr.To(l.seconds)
	now := metav1.MicroTime{Time: l.clock.Now()}
	if last := lease.Spec.RenewTime; last != nil && !last.Before(&now) {
		now.Time = last.Add(time.Microsecond) // what a MicroTime can tell apart
	}
	renewed.Spec.RenewTime = &now
	if node.UID != "" {
		renewed.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: node.Name, UID: node.UID,
		}}
	}
	return renewed
}
