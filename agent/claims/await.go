// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// Limits of the backoff between attempts.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// Await prepares the claims of a pod. It tries again with backoff, and at once when a driver
// registers, until it succeeds or ctx is done.
func (p *Preparer) Await(ctx context.Context, pod *v1.Pod) error {
	return p.repeat(ctx, func() error { return p.Prepare(ctx, pod) })
}

// AwaitAgain has the claims prepared again that an earlier process prepared for a pod. Kubelet does so
// after its start, since drivers may have lost with a reboot what they made. It tries again as Await
// does. It does nothing once the pod is released, so that Prepare and Release of the pod may overlap with
// it. The pod gets an Event if a driver fails, and none while a driver is not registered: it may start later.
func (p *Preparer) AwaitAgain(ctx context.Context, pod *v1.Pod) error {
	return p.repeat(ctx, func() error {
		err := p.prepareAgain(ctx, pod.UID)
		if errors.Is(err, errNotRegistered) {
			return err
		}
		return p.recorded(ctx, pod, err)
	})
}

// AwaitRelease releases the claims of a pod. It returns when they are unprepared, except those that
// other pods use. It tries again as Await does. Write the pod's final status only afterwards: it
// tells the scheduler that the devices are free.
func (p *Preparer) AwaitRelease(ctx context.Context, pod types.UID) error {
	uids := uidsOf(p.records.all(ofPod(pod)))
	return p.repeat(ctx, func() error {
		if err := p.Release(ctx, pod); err != nil {
			return err
		}
		// An earlier attempt may have released the pod, and failed to unprepare claims.
		var failed []error
		for _, uid := range uids {
			failed = append(failed, p.unprepareOne(ctx, uid))
		}
		return errors.Join(failed...)
	})
}

// repeat calls attempt until it succeeds, or ctx is done.
func (p *Preparer) repeat(ctx context.Context, attempt func() error) error {
	delay := firstRetry
	for {
		registered := p.plugins.registered()
		err := attempt()
		if err == nil {
			return nil
		}
		klog.FromContext(ctx).V(2).Info("Claims of a pod are not prepared or released yet", "reason", err)
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-registered:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(context.Cause(ctx), err)
		}
		timer.Stop()
		delay = min(2*delay, lastRetry)
	}
}
