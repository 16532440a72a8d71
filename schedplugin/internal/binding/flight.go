// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// SignalPending signals the claim's pending allocation to the manager: from now on the claim is in flight.
func (w *Writer) SignalPending(claim *claimstate.Claim) error {
	allocated := claimstate.WithAllocation(claim.Object, claim.Pending)
	if err := w.DRA.ResourceClaims().SignalClaimPendingAllocation(claim.Object.UID, allocated); err != nil {
		return fmt.Errorf("claim %s: announce its allocation: %w", klog.KObj(claim.Object), err)
	}
	claim.InFlight = claim.Object.UID
	w.Foreign.Allocates(claim.Object.UID, claim.Pending)
	if claim.InMemoryOnly() {
		w.Model.Pending(allocated)
	} else {
		w.Model.Changed(claim.Object, false)
	}
	return nil
}

// EndInFlight ends the in-flight state of a claim that was written. It reports whether no other pod shares
// that state.
func (w *Writer) EndInFlight(claim *claimstate.Claim) bool {
	if claim.InFlight == "" {
		return false
	}
	ended := w.DRA.ResourceClaims().MaybeRemoveClaimPendingAllocation(claim.InFlight, true)
	claim.InFlight = ""
	w.Model.Changed(claim.Object, false)
	return ended
}

// CancelInFlight ends the in-flight state of an allocation that was not written, unless other pods of the
// group share it. It reports whether it did.
func (w *Writer) CancelInFlight(claim *claimstate.Claim) bool {
	if claim.InFlight == "" {
		return false
	}
	uid := claim.InFlight
	claim.InFlight, claim.Pending = "", nil
	if !w.DRA.ResourceClaims().MaybeRemoveClaimPendingAllocation(uid, false) {
		return false
	}
	// An allocation that PreBind wrote counts until the claim is deallocated. One that another pod of the
	// group wrote stays assumed, as it is in the API server.
	if claim.Object.Status.Allocation == nil {
		w.Foreign.Forgets(uid)
		w.Model.Changed(claim.Object, false)
	}
	return true
}

// How long to wait until the informer delivers a claim that was created.
const assumeTimeout = 2 * time.Minute

var assumeBackoff = wait.Backoff{Duration: 5 * time.Millisecond, Factor: 2, Cap: time.Second, Steps: 1 << 20}

// assume puts the written claim into the manager's assume cache, ahead of the informer. A claim for extended
// resources that was just created may be missing there for a moment. Other errors are only logged: the claim
// was written, and a newer version is in the cache.
func (w *Writer) assume(ctx context.Context, claim *claimstate.Claim) {
	defer w.Model.Changed(claim.Object, false)
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, assumeTimeout)
	defer cancel()
	err := assumeBackoff.DelayFunc().Until(ctx, true, false, func(context.Context) (bool, error) {
		err := w.DRA.ResourceClaims().AssumeClaimAfterAPICall(claim.Object)
		if claim.Extended && errors.Is(err, assumecache.ErrNotFound) {
			return false, nil
		}
		return true, err
	})
	if err != nil {
		logger.V(5).Info("Claim not assumed", "resourceclaim", klog.KObj(claim.Object), "err", err)
	}
}
