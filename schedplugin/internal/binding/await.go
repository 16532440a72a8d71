// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// AwaitsDevices reports whether devices of the claims have binding conditions.
func (w *Writer) AwaitsDevices(claims []*claimstate.Claim) bool {
	return w.Conditions && slices.ContainsFunc(claims, func(claim *claimstate.Claim) bool {
		return claimstate.BindsConditionally(claim.Object)
	})
}

// AwaitDevices waits until the binding conditions of all devices are met. An error says which are not, and
// why.
func (w *Writer) AwaitDevices(ctx context.Context, claims []*claimstate.Claim) error {
	start := time.Now()
	err := w.poll(ctx, claims)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", claimstate.ErrBindingTimeout, err)
	}
	w.recordMetrics(claims, err, time.Since(start))
	if err != nil {
		return fmt.Errorf("%w: %s", err, claimstate.Waiting(claims))
	}
	return nil
}

// pollInterval is how often conditions are checked, in the manager's cache.
const pollInterval = 500 * time.Millisecond

// poll waits until all devices of the claims are ready. It replaces the claims' objects by their latest versions. It is an error
// if a claim is not allocated any more: that happens when the pod is deleted, and nothing else ends the wait then.
func (w *Writer) poll(ctx context.Context, claims []*claimstate.Claim) error {
	return wait.PollUntilContextTimeout(ctx, pollInterval, w.Timeout, true, func(context.Context) (bool, error) {
		for _, claim := range claims {
			if claim.InMemoryOnly() {
				continue
			}
			latest, err := w.DRA.ResourceClaims().Get(claim.Object.Namespace, claim.Object.Name)
			if err != nil {
				return false, err
			}
			replaced := latest.UID != claim.Object.UID
			claim.Object = latest
			if replaced || latest.Status.Allocation == nil {
				return false, fmt.Errorf("claim %s was deallocated meanwhile", klog.KObj(latest))
			}
			switch ready, err := claimstate.Ready(latest); {
			case err != nil:
				return false, err
			case ready:
			case w.Overdue(latest):
				return false, fmt.Errorf("%w: claim=%s", claimstate.ErrBindingTimeout, latest.Name)
			default:
				return false, nil
			}
		}
		return true, nil
	})
}

// Overdue reports whether the binding timeout of a claim's devices is over.
func (w *Writer) Overdue(claim *resourceapi.ResourceClaim) bool {
	allocation := claim.Status.Allocation
	if !w.Conditions || allocation == nil || allocation.AllocationTimestamp == nil {
		return false
	}
	return claimstate.BindsConditionally(claim) &&
		allocation.AllocationTimestamp.Add(w.Timeout).Before(time.Now())
}

// recordMetrics updates kube-scheduler's own metrics of binding conditions.
func (w *Writer) recordMetrics(claims []*claimstate.Claim, err error, took time.Duration) {
	status := schedmetrics.BindingConditionsStatusSuccess
	switch {
	case errors.Is(err, claimstate.ErrBindingTimeout):
		status = schedmetrics.BindingConditionsStatusTimeout
	case errors.Is(err, claimstate.ErrBindingFailed):
		status = schedmetrics.BindingConditionsStatusFailed
	case err != nil:
		status = schedmetrics.BindingConditionsStatusError
	}
	for _, claim := range claims {
		if claim.Object.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Object.Status.Allocation.Devices.Results {
			schedmetrics.DRABindingConditionsPreBindDuration.WithLabelValues(w.Profile, result.Driver, status).Observe(took.Seconds())
			if len(result.BindingConditions) > 0 {
				schedmetrics.DRABindingConditionsAllocationsTotal.WithLabelValues(w.Profile, result.Driver, status).Inc()
			}
		}
	}
}
