// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/pools"
	"github.com/dray-project/dray/simulate/internal/lists"
	"github.com/dray-project/dray/simulate/internal/onenode"
	"github.com/dray-project/dray/simulate/internal/table"
)

// sharedClaim is a claim that several pods may use, or that exists already.
type sharedClaim struct {
	object *resourceapi.ResourceClaim
	spec   *onenode.Spec
}

// claimRecord is what a State knows of such a claim. It is a value; its lists are immutable.
type claimRecord struct {
	allocated bool
	// consumers are those who use the claim. A PodGroup is there once for each of its pods.
	consumers table.Bag[resourceapi.ResourceClaimConsumerReference]
	// reserved are those among them that only status.reservedFor lists. copies is how often pods were placed again,
	// as others like them: each time is one more who uses the claim.
	reserved []resourceapi.ResourceClaimConsumerReference
	copies   int
	// held is what it holds on nodes, shared what it holds of pools of several nodes.
	held   []heldOn
	shared []onenode.SharedHolding
	// tied is the node on which alone the claim can be used; without, the selector says where.
	tied     *Node
	selector *nodeaffinity.NodeSelector
	// unlisted is what it holds of devices that no slice lists. They take nothing until they are expected.
	unlisted []unlistedHolding
	// unusable says why no further pod may use the claim.
	unusable error
}

// heldOn is what a claim holds of the devices of one node.
type heldOn struct {
	node     Node
	holdings []onenode.Holding
}

// unlistedHolding is a holding of which the device has no position yet.
type unlistedHolding struct {
	device pools.DeviceID
	onenode.Holding
}

// claimRecord is the record of a claim, an empty one if nothing is known of the claim.
func (d *version) claimRecord(id int) *claimRecord {
	if id < d.claims.Len() {
		return d.claims.At(id)
	}
	return &claimRecord{}
}

// only reports whether a claim holds devices of one real node at most, and of no pool that may come to be
// listed on another.
func (r *claimRecord) only(node int) bool {
	return len(r.unlisted) == 0 && !slices.ContainsFunc(r.held, func(h heldOn) bool { return h.node.template != nil || h.node.index != node })
}

// usedBy reports whether somebody is the only one who uses a claim, once, and it is open again without.
func (r *claimRecord) usedBy(consumer resourceapi.ResourceClaimConsumerReference) bool {
	return r.unusable == nil && r.consumers.Len() == 1 && r.consumers.Times(consumer) == 1
}

// full reports whether as many use the claim as may. A PodGroup counts once.
func (r *claimRecord) full() bool {
	return r.consumers.Len()+r.copies >= resourceapi.ResourceClaimReservedForMaxSize
}

// join adds a consumer, leave takes it away once.
func (r *claimRecord) join(consumer resourceapi.ResourceClaimConsumerReference, by *table.Edition) {
	if r.hasPod(consumer) {
		r.copies++
	}
	r.consumers.Add(consumer, by)
}

func (r *claimRecord) leave(consumer resourceapi.ResourceClaimConsumerReference, by *table.Edition) {
	r.consumers.Remove(consumer, by)
	if r.hasPod(consumer) {
		r.copies--
	}
}

// hasPod reports whether a consumer is a pod that is on a node and uses the claim.
func (r *claimRecord) hasPod(consumer resourceapi.ResourceClaimConsumerReference) bool {
	placed := r.consumers.Times(consumer)
	if slices.Contains(r.reserved, consumer) {
		placed--
	}
	return placed > 0 && consumer.Resource == "pods"
}

// admits reports whether an allocated claim can be used on a node.
func (r *claimRecord) admits(n Node, node *corev1.Node) bool {
	if r.tied != nil {
		return *r.tied == n
	}
	return r.selector == nil || r.selector.Match(node)
}

// number returns that of the claim of a name, which it gets the first time.
func (f *family) number(key types.NamespacedName) int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, known := f.claimIDs[key]
	if !known {
		id = int32(len(f.claimIDs))
		f.claimIDs[key] = id
	}
	return id
}

// existing returns the claim of a name with its number, nil if there is none.
func (w *world) existing(key types.NamespacedName) (int32, *sharedClaim) {
	w.mu.Lock()
	id, known := w.claimIDs[key]
	w.mu.Unlock()
	if !known {
		return 0, nil
	}
	return id, w.realClaim(id)
}

// claim returns the number of a claim that exists, or that is made when a pod needs it.
func (w *world) claim(key types.NamespacedName, object *resourceapi.ResourceClaim) int32 {
	id := w.number(key)
	if w.realClaim(id) == nil {
		made, _ := w.claimOf(object)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.generated[id] == nil {
			w.generated[id] = &made
		}
	}
	return id
}

// claimOf is a claim with its spec. The error is about its annotation.
func (w *world) claimOf(object *resourceapi.ResourceClaim) (sharedClaim, error) {
	more, err := w.extensionOf(object) // with an error, pods that refer to the claim are an error, too
	return sharedClaim{object: object, spec: w.Spec(&object.Spec.Devices, more)}, err
}

// realClaim is the claim with a number, nil if it does not exist.
func (w *world) realClaim(id int32) *sharedClaim {
	if int(id) < w.claims.Len() {
		if claim := w.claims.At(int(id)); claim.object != nil {
			return claim
		}
	}
	return nil
}

func (w *world) claimNumbered(id int32) *sharedClaim {
	if claim := w.realClaim(id); claim != nil {
		return claim
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.generated[id]
}

// consumer is who a claim is reserved for when the pod uses it.
func (w *world) consumer(id int32, pod *corev1.Pod) resourceapi.ResourceClaimConsumerReference {
	return w.resolver.Consumer(w.claimNumbered(id).object, pod)
}

// extensionOf is what a claim asks for beyond its spec, nothing unless Options.Extensions is set, or with an error.
func (w *world) extensionOf(claim *resourceapi.ResourceClaim) (extension.Claim, error) {
	if !w.options.Extensions {
		return extension.Claim{}, nil
	}
	more, err := extension.Of(claim)
	if err != nil {
		return extension.Claim{}, fmt.Errorf("claim %s: %w", lists.Key(claim), err)
	}
	return more, nil
}

// specOfClaim returns the spec of a claim with what it asks for beyond it. The error is about its annotation.
func (w *world) specOfClaim(claim *resourceapi.ResourceClaim) (*onenode.Spec, error) {
	more, err := w.extensionOf(claim)
	if err != nil {
		return nil, err
	}
	if _, known := w.existing(lists.Key(claim)); known != nil && known.object == claim {
		return known.spec, nil
	}
	return w.Spec(&claim.Spec.Devices, more), nil
}

// isOfPod reports whether a claim was made for a pod alone.
func isOfPod(podClaim corev1.PodResourceClaim, claim *resourceapi.ResourceClaim) bool {
	owner := metav1.GetControllerOfNoCopy(claim)
	return podClaim.ResourceClaimTemplateName != nil && owner != nil && owner.Kind == "Pod"
}
