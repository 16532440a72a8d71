// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

// whatIf is what is in use if pods are added or removed. It belongs to one goroutine. The zero value changes
// nothing.
type whatIf struct {
	// remembered is a cached state, which is valid for this node only. While it is set, now and settled are
	// not needed.
	remembered *pools.State
	// now has the claims that nobody needs any more, settled lacks them. They are the same if there are none.
	// Settled is nil until Settle.
	now, settled *branch
	// useSettled is set if the pod may use devices of claims that nobody needs any more: Usage is settled then, not now.
	useSettled bool
	// gone are the UIDs of pods that were removed.
	gone sets.Set[types.UID]
	// steps are the steps so far, as long as nothing but setting aside was done.
	steps []step
	// aside are the claims of nominated pods, with the devices that were set aside for them.
	aside []*resourceapi.ResourceClaim
}

// branch is a ledger in which some claims were released.
type branch struct {
	ledger *pools.Ledger
	freed  map[types.UID]*resourceapi.ResourceClaim
}

func (s *branch) clone() *branch {
	return &branch{ledger: s.ledger.Branch(), freed: maps.Clone(s.freed)}
}

// release frees the devices of a claim. If the claim holds none, it does nothing.
func (s *branch) release(claim *resourceapi.ResourceClaim) {
	if s.freed[claim.UID] != nil || s.ledger.Forget(claim) != nil {
		return
	}
	if s.freed == nil {
		s.freed = make(map[types.UID]*resourceapi.ResourceClaim)
	}
	s.freed[claim.UID] = claim
}

// restore undoes release, if the claim was released.
func (s *branch) restore(claim *resourceapi.ResourceClaim) error {
	freed := s.freed[claim.UID]
	if freed == nil {
		return nil
	}
	delete(s.freed, claim.UID)
	return s.ledger.Assume(freed)
}

// Begin makes the state with all steps so far, from the view of the pod. It has to be called before Remove,
// Restore and Settle.
func (w *whatIf) Begin(view *model.View) error {
	if w.now != nil {
		return nil
	}
	w.now, w.remembered = &branch{ledger: view.Branch()}, nil
	for _, claim := range w.aside {
		if err := w.now.ledger.Assume(claim); err != nil {
			return err
		}
	}
	return nil
}

// Clone returns an independent copy, nil for nil.
func (w *whatIf) Clone() *whatIf {
	if w == nil {
		return nil
	}
	clone := &whatIf{remembered: w.remembered, useSettled: w.useSettled, aside: w.aside[:len(w.aside):len(w.aside)], steps: w.steps[:len(w.steps):len(w.steps)]}
	if w.now == nil {
		return clone
	}
	clone.now, clone.gone = w.now.clone(), w.gone.Clone()
	switch w.settled {
	case nil:
	case w.now:
		clone.settled = clone.now
	default:
		clone.settled = w.settled.clone()
	}
	return clone
}

// Usage is what is in use, as this pod sees it. It is nil if nothing was changed: the added pods need no more
// devices than they have.
func (w *whatIf) Usage() *pools.State {
	switch {
	case w.remembered != nil:
		return w.remembered
	case w.useSettled:
		return w.settled.ledger.State()
	case w.now != nil:
		return w.now.ledger.State()
	}
	return nil
}

// Settle makes settled from now, by removing the claims that nobody needs any more. Without is the ledger of
// the view that lacks them, nil if there are none. Later calls do nothing.
func (w *whatIf) Settle(without *pools.Ledger) error {
	switch {
	case w.settled != nil:
		return nil
	case without == nil:
		w.settled = w.now
		return nil
	}
	w.settled = &branch{ledger: without.Branch()}
	for _, claim := range w.now.freed {
		w.settled.release(claim)
	}
	for _, claim := range w.aside {
		if err := w.settled.ledger.Assume(claim); err != nil {
			return err
		}
	}
	return nil
}

// UseSettled lets the pod use the devices of claims that nobody needs any more. Without is the ledger that
// lacks them.
func (w *whatIf) UseSettled(without *pools.Ledger) error {
	w.useSettled = true
	return w.Settle(without)
}

// Removed reports whether pods were removed.
func (w *whatIf) Removed() bool { return w != nil && w.gone.Len() > 0 }

// Gone reports whether a pod was removed.
func (w *whatIf) Gone(pod types.UID) bool { return w.gone.Has(pod) }

// SetAsideClaims returns the claims of nominated pods with the devices that were set aside for them.
func (w *whatIf) SetAsideClaims() []*resourceapi.ResourceClaim {
	if w == nil {
		return nil
	}
	return w.aside
}

// Ledger returns what is in use, after Begin.
func (w *whatIf) Ledger() *pools.Ledger { return w.now.ledger }

// Remove frees the claims that nobody uses once the pod is gone, except those of the pod being scheduled: the
// resource claim controller deletes or deallocates them.
func (w *whatIf) Remove(pod *corev1.Pod, claims []*resourceapi.ResourceClaim, own sets.Set[types.UID]) {
	if w.gone == nil {
		w.gone = sets.New[types.UID]()
	}
	w.gone.Insert(pod.UID)
	for _, claim := range claims {
		if own.Has(claim.UID) || !w.unused(pod, claim) {
			continue
		}
		w.now.release(claim)
		if w.settled != nil {
			w.settled.release(claim)
		}
	}
}

// unused reports whether all consumers of a claim are removed. A claim in flight has no consumers yet: then
// its owner counts, if it has one.
func (w *whatIf) unused(pod *corev1.Pod, claim *resourceapi.ResourceClaim) bool {
	if len(claim.Status.ReservedFor) == 0 {
		return metav1.IsControlledBy(claim, pod)
	}
	for _, consumer := range claim.Status.ReservedFor {
		if !w.gone.Has(consumer.UID) {
			return false
		}
	}
	return true
}

// Restore undoes Remove.
func (w *whatIf) Restore(pod *corev1.Pod, claims []*resourceapi.ResourceClaim) error {
	w.gone.Delete(pod.UID)
	for _, claim := range claims {
		if err := w.now.restore(claim); err != nil {
			return err
		}
		if w.settled == nil || w.settled == w.now {
			continue
		}
		if err := w.settled.restore(claim); err != nil {
			return err
		}
	}
	return nil
}

// reserve marks the devices of another pod's claim as in use.
func (w *whatIf) reserve(claim *resourceapi.ResourceClaim) error {
	if err := w.now.ledger.Assume(claim); err != nil {
		return err
	}
	w.aside = append(w.aside, claim)
	if w.settled == nil || w.settled == w.now {
		return nil
	}
	return w.settled.ledger.Assume(claim)
}
