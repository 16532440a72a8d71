// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// unresolvable returns a status for a pod that evicting others cannot help.
func unresolvable(logger klog.Logger, reason string, keysAndValues ...any) *fwk.Status {
	return rejected(logger, fwk.UnschedulableAndUnresolvable, reason, keysAndValues...)
}

// rejected logs why a pod is rejected, with the position of the caller, and returns the status.
func rejected(logger klog.Logger, code fwk.Code, reason string, keysAndValues ...any) *fwk.Status {
	if logger := logger.V(5); logger.Enabled() {
		helper, logger := logger.WithCallStackHelper()
		helper()
		logger.Info("Pod cannot be scheduled", append(keysAndValues, "reason", reason)...) //nolint:logcheck // the keys are constants of the callers
	}
	return fwk.NewStatus(code, reason)
}

// refused is like rejected, for a node in Filter. It looks up no caller, as it is called for many nodes.
func refused(ctx context.Context, code fwk.Code, reason string, pod *corev1.Pod, node *corev1.Node) *fwk.Status {
	if logger := klog.FromContext(ctx).V(5); logger.Enabled() {
		logger.Info("Node does not suit pod", "pod", klog.KObj(pod), "node", klog.KObj(node), "reason", reason)
	}
	return fwk.NewStatus(code, reason)
}

// failed logs an error and returns it as a status. The framework retries the pod after a backoff.
func failed(logger klog.Logger, err error, keysAndValues ...any) *fwk.Status {
	if logger := logger.V(5); logger.Enabled() {
		helper, logger := logger.WithCallStackHelper()
		helper()
		logger.Error(err, "Scheduling failed", keysAndValues...) //nolint:logcheck // the keys are constants of the callers
	}
	return fwk.AsStatus(err)
}

// event records an Event, if the handle has a recorder.
func (p *Plugin) event(ctx context.Context, about runtime.Object, kind, reason, format string, args ...any) {
	if recorder := p.handle.EventRecorder(); recorder != nil {
		recorder.WithLogger(klog.FromContext(ctx)).Eventf(about, nil, kind, reason, "Scheduling", format, args...)
	}
}

// withTimeout returns a context that ends after the time limit for one node.
func (p *Plugin) withTimeout(ctx context.Context, c *cycle) context.Context {
	if p.args.FilterTimeout.Duration <= 0 {
		return ctx
	}
	return &timeLimit{Context: ctx, limit: p.args.FilterTimeout.Duration << c.budgetLevel}
}

// timeLimit is a context with a deadline that only Err observes: nobody waits for Done. So it needs no timer,
// of which there would be one per pod and node. The clock is read from the second call on, as answers from
// memory need one call. It belongs to one goroutine.
type timeLimit struct {
	context.Context
	limit time.Duration
	asked bool
	end   time.Time // zero before it is asked for the second time
}

// Err implements context.Context.
func (t *timeLimit) Err() error {
	if err := t.Context.Err(); err != nil || !t.asked {
		t.asked = true
		return err
	}
	now := time.Now()
	if t.end.IsZero() {
		t.end = now.Add(t.limit)
	}
	if now.Before(t.end) {
		return nil
	}
	return context.DeadlineExceeded
}
