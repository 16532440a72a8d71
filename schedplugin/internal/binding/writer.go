// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
	"github.com/dray-project/dray/schedplugin/internal/foreign"
	"github.com/dray-project/dray/schedplugin/internal/metrics"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

// Writer writes allocations and reservations of claims, and updates the scheduler's caches. It is safe for
// concurrent use, but a claim belongs to one goroutine at a time.
type Writer struct {
	Client kubernetes.Interface
	DRA    fwk.SharedDRAManager
	Source claimstate.Source
	// Model is notified of changes ahead of the informer.
	Model *model.Model
	// Conditions is set if device binding conditions are on. Timeout is how long they may take.
	Conditions bool
	Timeout    time.Duration
	// Foreign is notified of allocations by this scheduler. It may be nil.
	Foreign *foreign.Watch
	// Unconfirmed is called for a pod if it stays unknown whether a claim was written, with the error.
	Unconfirmed func(ctx context.Context, pod *corev1.Pod, err error)
	// Profile is the name of the scheduler profile, for metrics.
	Profile string
}

// Bind writes the allocation and the reservation of a claim, unless they are there, and puts the claim into
// the assume cache. A claim for extended resources is created first, and the pod's status gets its name and
// the mappings. After an update without a clear answer, Bind retries for up to five minutes until it is known
// whether the claim was written. An error is that of the API server, or says that the claim is no longer what
// the pod was scheduled with.
func (w *Writer) Bind(ctx context.Context, claim *claimstate.Claim, pod *corev1.Pod, mappings []corev1.ContainerExtendedResourceRequest) error {
	if claim.InMemoryOnly() && claim.Pending == nil {
		return nil // a device plugin provides the extended resources
	}
	if w.Source.ReservedFor(pod, claim.Object) {
		return nil
	}
	if claim.InMemoryOnly() {
		if err := w.create(ctx, claim); err != nil {
			return err
		}
	}
	written, err := w.write(ctx, claim, pod)
	if err != nil {
		return err
	}
	claim.Object = written
	w.assume(ctx, claim)
	if claim.Extended {
		return w.reportExtended(ctx, pod, claim.Object.Name, mappings)
	}
	return nil
}

// confirmTimeout is how long an update without a clear answer is retried, confirmInterval the time between
// two tries.
const (
	confirmTimeout  = 5 * time.Minute
	confirmInterval = 500 * time.Millisecond
	// eventAttempt is the attempt after which an Event is recorded.
	eventAttempt = 3
)

// write updates the claim in the API server, again after a conflict. It retries until it is known whether the
// update was made: the devices of an update that was made, but not answered, must not be given to another
// claim, and the informer may be late.
func (w *Writer) write(ctx context.Context, claim *claimstate.Claim, pod *corev1.Pod) (*resourceapi.ResourceClaim, error) {
	latest := claim.Object
	var written *resourceapi.ResourceClaim
	update := func() error {
		from := latest
		latest = nil // after a failure, the next try reads the claim from the API server
		var err error
		if from == nil {
			from, err = w.Client.ResourceV1().ResourceClaims(claim.Object.Namespace).Get(ctx, claim.Object.Name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("get claim %s after a failed update: %w", klog.KObj(claim.Object), err)
			}
		}
		written, err = w.writeOnce(ctx, claim, from)
		if apierrors.IsConflict(err) {
			metrics.Conflict()
		}
		return err
	}
	var failure error
	attempts, unknown := 0, false
	// It asks at least once, and its own error says only that it is over.
	_ = wait.PollUntilContextTimeout(ctx, confirmInterval, confirmTimeout, true, func(context.Context) (bool, error) {
		failure = retry.RetryOnConflict(retry.DefaultRetry, update)
		unknown = mayBeWritten(failure) || unknown && isRefusal(failure)
		if attempts++; attempts == eventAttempt && unknown {
			klog.FromContext(ctx).Error(failure, "It is not known whether a claim was written, which is tried again", "resourceclaim", klog.KObj(claim.Object), "limit", confirmTimeout)
			w.Unconfirmed(ctx, pod, failure)
		}
		return !unknown, nil
	})
	return written, failure
}

// mayBeWritten reports whether a request may have been served although it failed: there was no answer, or half of
// one, or the API server does not know.
func mayBeWritten(err error) bool {
	var status apierrors.APIStatus
	switch {
	case err == nil, errors.As(err, new(changedError)):
		return false
	case errors.As(err, &status):
		return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
	}
	return true
}

// changedError says that a claim is no longer what the pod was scheduled with.
type changedError struct{ what string }

func (e changedError) Error() string { return e.what }

func changed(claim *resourceapi.ResourceClaim, how string) error {
	return changedError{fmt.Sprintf("claim %s was %s meanwhile", klog.KObj(claim), how)}
}

// isRefusal reports whether the API server refused a request without looking at the object. It does so shortly after its start, as its
// authorizer has not read the roles yet. It says nothing about an earlier request that had no answer.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err)
}

// writeOnce needs two calls for an allocation and one for a reservation alone: the API server ignores
// finalizers in updates of the status.
func (w *Writer) writeOnce(ctx context.Context, claim *claimstate.Claim, latest *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	updated, err := w.withReservation(claim, latest)
	if err != nil {
		return nil, err
	}
	if updated == nil {
		return latest, nil // another pod of the group wrote the allocation and the reservation
	}
	claims := w.Client.ResourceV1().ResourceClaims(latest.Namespace)
	if claim.Pending != nil && !slices.Contains(latest.Finalizers, resourceapi.Finalizer) {
		status := updated.Status
		updated.Status = latest.Status
		updated.Finalizers = append(slices.Clone(latest.Finalizers), resourceapi.Finalizer)
		if updated, err = claims.Update(ctx, updated, metav1.UpdateOptions{}); err != nil {
			return nil, fmt.Errorf("claim %s: add finalizer: %w", klog.KObj(latest), err)
		}
		updated.Status = status
	}
	if updated, err = claims.UpdateStatus(ctx, updated, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("claim %s: update status: %w", klog.KObj(latest), err)
	}
	return updated, nil
}

// withReservation returns a copy of the claim with allocation and reservation, nil if it has both. It is an
// error if the claim is no longer what the pod was scheduled with.
func (w *Writer) withReservation(claim *claimstate.Claim, latest *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	switch {
	case latest.UID != claim.Object.UID:
		return nil, changed(latest, "replaced by another one")
	case latest.DeletionTimestamp != nil:
		return nil, changed(latest, "deleted")
	case latest.Status.Allocation == nil && claim.Pending == nil:
		return nil, changed(latest, "deallocated")
	case latest.Status.Allocation != nil && !allocatedAsScheduled(claim, latest.Status.Allocation):
		return nil, changed(latest, "allocated elsewhere")
	case latest.Status.Allocation != nil && claimstate.Reserved(latest, claim.Consumer):
		return nil, nil
	}
	updated := latest.DeepCopy()
	if updated.Status.Allocation == nil {
		updated.Status.Allocation = claim.Pending.DeepCopy()
		if w.Conditions { // the API server refuses to add it later
			updated.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Now()}
		}
	}
	if !claimstate.Reserved(updated, claim.Consumer) {
		updated.Status.ReservedFor = append(updated.Status.ReservedFor, claim.Consumer)
	}
	return updated, nil
}

// allocatedAsScheduled reports whether the claim has the devices that the pod was scheduled with.
func allocatedAsScheduled(claim *claimstate.Claim, allocation *resourceapi.AllocationResult) bool {
	expected := claim.Object.Status.Allocation
	if expected == nil {
		expected = claim.Pending
	}
	return expected != nil && equality.Semantic.DeepEqual(expected.Devices.Results, allocation.Devices.Results)
}
