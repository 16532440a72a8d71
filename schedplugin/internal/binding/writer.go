// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"net"
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

// Writer writes what becomes of claims, and has the scheduler see it. It is safe for concurrent
// use, a claim belongs to one goroutine at a time.
type Writer struct {
	Client kubernetes.Interface
	DRA    fwk.SharedDRAManager
	Source claimstate.Source
	// Model is told of changes ahead of the informer.
	Model *model.Model
	// Conditions is set if devices may have to be prepared before a pod is bound, which may
	// take as long as Timeout.
	Conditions bool
	Timeout    time.Duration
	// Foreign is told what is allocated. It may be nil.
	Foreign *foreign.Watch
	// Unconfirmed tells of a pod that it is not known whether a claim of it was written, and why.
	Unconfirmed func(ctx context.Context, pod *corev1.Pod, err error)
	// Profile is the name of the scheduler profile, for metrics.
	Profile string
}

// Bind records the allocation and the reservation of a claim, as far as they are not, and has
// the scheduler see that at once. A claim for extended resources is created, and the pod's status
// says which containers use it, as mappings have it. Until it is known what became of an update it
// does not return, for five minutes at most. An error is that of the API server, or says that
// the claim is no longer what the pod was scheduled with.
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

// doubtLimit is how long it may be unknown what became of an update, doubtPause the time between
// two looks.
const (
	confirmTimeout  = 5 * time.Minute
	confirmInterval = 500 * time.Millisecond
	// eventAttempt is the attempt after which people are told.
	eventAttempt = 3
)

// write updates the claim in the API server, again if somebody else does so at the same time.
// It goes on until it is known what became of it: the devices of an update that was made, and
// not answered, must not be given away, and the informer may be late.
func (w *Writer) write(ctx context.Context, claim *claimstate.Claim, pod *corev1.Pod) (*resourceapi.ResourceClaim, error) {
	latest := claim.Object
	var written *resourceapi.ResourceClaim
	update := func() error {
		from := latest
		latest = nil // if this fails, the API server knows better
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
	attempts := 0
	err := wait.PollUntilContextTimeout(ctx, confirmInterval, confirmTimeout, true, func(context.Context) (bool, error) {
		failure = retry.RetryOnConflict(retry.DefaultRetry, update)
		if attempts++; attempts == eventAttempt && mayBeWritten(failure) {
			klog.FromContext(ctx).Error(failure, "It is not known whether a claim was written, which is tried again", "resourceclaim", klog.KObj(claim.Object), "limit", confirmTimeout)
			w.Unconfirmed(ctx, pod, failure)
		}
		return !mayBeWritten(failure), nil
	})
	if failure == nil {
		failure = err
	}
	return written, failure
}

// mayBeWritten reports whether a request may have been served although it failed: there was no
// answer, or one that says that the API server does not know.
func mayBeWritten(err error) bool {
	var status apierrors.APIStatus
	var network net.Error
	if errors.As(err, &status) {
		return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
	}
	return errors.As(err, &network)
}

// writeOnce takes two calls for an allocation and one for a reservation: the API server
// ignores finalizers in updates of the status.
func (w *Writer) writeOnce(ctx context.Context, claim *claimstate.Claim, latest *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	updated, err := w.withReservation(claim, latest)
	if err != nil {
		return nil, err
	}
	if updated == nil {
		return latest, nil // another pod of the group wrote all of it
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

// withReservation returns a copy of the claim as it has to be, nil if it is that already. It
// is an error if the claim is no longer what the pod was scheduled with.
func (w *Writer) withReservation(claim *claimstate.Claim, latest *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	switch {
	case latest.UID != claim.Object.UID:
		return nil, fmt.Errorf("claim %s was replaced by another one meanwhile", klog.KObj(latest))
	case latest.DeletionTimestamp != nil:
		return nil, fmt.Errorf("claim %s was deleted meanwhile", klog.KObj(latest))
	case latest.Status.Allocation == nil && claim.Pending == nil:
		return nil, fmt.Errorf("claim %s was deallocated meanwhile", klog.KObj(latest))
	case latest.Status.Allocation != nil && !allocatedAsScheduled(claim, latest.Status.Allocation):
		return nil, fmt.Errorf("claim %s was allocated elsewhere meanwhile", klog.KObj(latest))
	case latest.Status.Allocation != nil && claimstate.Reserved(latest, claim.Consumer):
		return nil, nil
	}
	updated := latest.DeepCopy()
	if updated.Status.Allocation == nil {
		updated.Status.Allocation = claim.Pending.DeepCopy()
		if w.Conditions { // it cannot be added later
			updated.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: time.Now()}
		}
	}
	if !claimstate.Reserved(updated, claim.Consumer) {
		updated.Status.ReservedFor = append(updated.Status.ReservedFor, claim.Consumer)
	}
	return updated, nil
}

// allocatedAsScheduled reports whether the claim is allocated as the pod was scheduled with.
func allocatedAsScheduled(claim *claimstate.Claim, allocation *resourceapi.AllocationResult) bool {
	expected := claim.Object.Status.Allocation
	if expected == nil {
		expected = claim.Pending
	}
	return expected != nil && equality.Semantic.DeepEqual(expected.Devices.Results, allocation.Devices.Results)
}
