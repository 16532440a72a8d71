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

// unresolvable is the status for what evicting other pods does not change.
func unresolvable(logger klog.Logger, reason string, keysAndValues ...any) *fwk.Status {
	return rejected(logger, fwk.UnschedulableAndUnresolvable, reason, keysAndValues...)
}

// rejected logs why a pod or node is rejected, from where it is.
func rejected(logger klog.Logger, code fwk.Code, reason string, keysAndValues ...any) *fwk.Status {
	if logger := logger.V(5); logger.Enabled() {
		helper, logger := logger.WithCallStackHelper()
		helper()
		logger.Info("Pod cannot be scheduled", append(keysAndValues, "reason", reason)...) //nolint:logcheck // the keys are constants of the callers
	}
	return fwk.NewStatus(code, reason)
}

// refused is rejected for the many nodes that do not suit a pod.
func refused(ctx context.Context, code fwk.Code, reason string, pod *corev1.Pod, node *corev1.Node) *fwk.Status {
	if logger := klog.FromContext(ctx).V(5); logger.Enabled() {
		logger.Info("Node does not suit pod", "pod", klog.KObj(pod), "node", klog.KObj(node), "reason", reason)
	}
	return fwk.NewStatus(code, reason)
}

// failed logs an error and makes it a status, which has the pod scheduled again after a while.
func failed(logger klog.Logger, err error, keysAndValues ...any) *fwk.Status {
	if logger := logger.V(5); logger.Enabled() {
		helper, logger := logger.WithCallStackHelper()
		helper()
		logger.Error(err, "Scheduling failed", keysAndValues...) //nolint:logcheck // the keys are constants of the callers
	}
	return fwk.AsStatus(err)
}

// event records an Event, where there is a recorder.
func (p *Plugin) event(ctx context.Context, about runtime.Object, kind, reason, format string, args ...any) {
	if recorder := p.handle.EventRecorder(); recorder != nil {
		recorder.WithLogger(klog.FromContext(ctx)).Eventf(about, nil, kind, reason, "Scheduling", format, args...)
	}
}

// withTimeout bounds the time for one node.
func (p *Plugin) withTimeout(ctx context.Context, c *cycle) context.Context {
	if p.args.FilterTimeout.Duration <= 0 {
		return ctx
	}
	return &timeLimit{Context: ctx, limit: p.args.FilterTimeout.Duration << c.budgetLevel}
}

// timeLimit is a context which is asked, and never waited for: it needs no timer, of which
// there would be one per pod and node. Nor does it need a clock for an answer that is known:
// that is given after it was asked once. It belongs to one goroutine.
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
