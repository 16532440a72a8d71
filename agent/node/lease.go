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

// firstRetry is the pause before a lease or a status is written again after a failure. It doubles
// with each failure, up to the regular interval.
const firstRetry = 200 * time.Millisecond

// nodeLease renews the Lease of a node, which tells the node lifecycle controller that the node is
// alive (KEP-589).
type nodeLease struct {
	client   coordclientset.LeaseInterface
	seconds  int32
	interval time.Duration
	clock    clock.PassiveClock // for timestamps; pauses use the monotonic clock

	last *coordinationv1.Lease // the latest version from the API server, or nil if it is unknown
}

// run renews the lease until ctx ends. alive returns the node, and false while its provider does
// not answer pings. The lease is not renewed meanwhile, so that it expires.
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

// renew writes the lease once. If the version that it has is outdated, it reads the lease and
// writes again.
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

// renewed returns the lease with a new time of renewal. That time never goes back, even if the
// machine's clock does: the node lifecycle controller ignores a renewal that is not later than the
// last one.
//
// The owner reference gets the node's current UID. If the node was deleted and created again, the
// garbage collector would delete a lease with the old UID.
func (l *nodeLease) renewed(lease *coordinationv1.Lease, node *corev1.Node) *coordinationv1.Lease {
	renewed := lease.DeepCopy()
	renewed.Spec.HolderIdentity = ptr.To(node.Name)
	renewed.Spec.LeaseDurationSeconds = ptr.To(l.seconds)
	now := metav1.MicroTime{Time: l.clock.Now()}
	if last := lease.Spec.RenewTime; last != nil && !last.Before(&now) {
		now.Time = last.Add(time.Microsecond) // the resolution of a MicroTime
	}
	renewed.Spec.RenewTime = &now
	if node.UID != "" {
		renewed.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: node.Name, UID: node.UID,
		}}
	}
	return renewed
}
