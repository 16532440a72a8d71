package schedplugin

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/dray-project/dray/pools"
)

// whatIf is the state of devices as it would be if pods came or went. It belongs to one
// goroutine.
type whatIf struct {
	ledger *pools.Ledger
	// gone are the pods that were removed.
	gone sets.Set[types.UID]
	// freed are the claims that are held in the ledger no longer, by UID.
	freed map[types.UID]*resourceapi.ResourceClaim
	// own are the claims of the pod that is being scheduled. They never come free for it.
	own sets.Set[types.UID]
}

// imagine starts a what-if on the state that the pod is scheduled with.
func (c *cycle) imagine() *whatIf {
	w := &whatIf{ledger: c.view.Fork(), gone: sets.New[types.UID](), freed: make(map[types.UID]*resourceapi.ResourceClaim), own: sets.New[types.UID]()}
	for _, claim := range c.claims {
		w.own.Insert(claim.object.UID)
	}
	return w
}

func (w *whatIf) clone() *whatIf {
	if w == nil {
		return nil
	}
	clone := &whatIf{ledger: w.ledger.Fork(), gone: w.gone.Clone(), own: w.own, freed: make(map[types.UID]*resourceapi.ResourceClaim, len(w.freed))}
	for uid, claim := range w.freed {
		clone.freed[uid] = claim
	}
	return clone
}

// remove frees the claims that nobody uses any more once the pod is gone: the resource claim
// controller deletes or deallocates them.
func (w *whatIf) remove(pod *corev1.Pod, claims []*resourceapi.ResourceClaim) {
	w.gone.Insert(pod.UID)
	for _, claim := range claims {
		if w.unused(pod, claim) {
			w.release([]*resourceapi.ResourceClaim{claim})
		}
	}
}

// release frees claims, but for the pod's own.
func (w *whatIf) release(claims []*resourceapi.ResourceClaim) {
	for _, claim := range claims {
		if w.own.Has(claim.UID) || w.freed[claim.UID] != nil {
			continue
		}
		// It is no error if the claim holds nothing.
		if w.ledger.Release(claim) == nil {
			w.freed[claim.UID] = claim
		}
	}
}

// unused reports whether all consumers of a claim are gone. One that is being allocated has
// none recorded: then only its owner, if it has one, can be its consumer.
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

// restore takes back that a pod was removed. It reports whether it was.
func (w *whatIf) restore(pod *corev1.Pod, claims []*resourceapi.ResourceClaim) (bool, error) {
	if !w.gone.Has(pod.UID) {
		return false, nil
	}
	w.gone.Delete(pod.UID)
	for _, claim := range claims {
		freed := w.freed[claim.UID]
		if freed == nil {
			continue
		}
		delete(w.freed, claim.UID)
		if err := w.ledger.Allocate(freed); err != nil {
			return true, err
		}
	}
	return true, nil
}
