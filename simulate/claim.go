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

// sharedClaim is a claim that several pods may use, or one that exists already.
type sharedClaim struct {
	object *resourceapi.ResourceClaim
	spec   *onenode.Spec
}

// claimRecord is the state of a sharedClaim in a version. It is a value; its lists are immutable.
type claimRecord struct {
	allocated bool
	// consumers are the users of the claim. A PodGroup is listed once for each of its pods.
	consumers table.Bag[resourceapi.ResourceClaimConsumerReference]
	// reserved are the consumers that are listed in status.reservedFor only. copies counts pods that were
	// placed more than once, as stand-ins for equal pods; each is one more user.
	reserved []resourceapi.ResourceClaimConsumerReference
	copies   int
	// held is what the claim holds on nodes, shared what it holds of pools of several nodes.
	held   []heldOn
	shared []onenode.SharedHolding
	// tied is the only node where the claim can be used. If it is nil, selector says where.
	tied     *Node
	selector *nodeaffinity.NodeSelector
	// unlisted is what the claim holds of devices that no slice lists. They have no effect until a slice lists
	// them.
	unlisted []unlistedHolding
	// unusable is the reason why no further pod may use the claim, nil if there is none.
	unusable error
}

// heldOn is what a claim holds on one node.
type heldOn struct {
	node     Node
	holdings []onenode.Holding
}

// unlistedHolding is a holding of a device that has no position yet.
type unlistedHolding struct {
	device pools.DeviceID
	onenode.Holding
}

// claimRecord returns the record of a claim, an empty one if there is none.
func (d *version) claimRecord(id int) *claimRecord {
	if id < d.claims.Len() {
		return d.claims.At(id)
	}
	return &claimRecord{}
}

// only reports whether a claim holds devices of at most this real node, and none that a slice of another node
// may list later.
func (r *claimRecord) only(node int) bool {
	return len(r.unlisted) == 0 && !slices.ContainsFunc(r.held, func(h heldOn) bool { return h.node.template != nil || h.node.index != node })
}

// usedBy reports whether the consumer is the claim's only user, once. The claim is deallocated when that
// consumer leaves.
func (r *claimRecord) usedBy(consumer resourceapi.ResourceClaimConsumerReference) bool {
	return r.unusable == nil && r.consumers.Len() == 1 && r.consumers.Times(consumer) == 1
}

// full reports whether the claim has the largest allowed number of users. A PodGroup counts once.
func (r *claimRecord) full() bool {
	return r.consumers.Len()+r.copies >= resourceapi.ResourceClaimReservedForMaxSize
}

// join adds a consumer. leave removes it once.
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

// number returns the number for the name of a claim. A new name gets the next one.
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

// existing returns the claim of a name and its number, nil if there is none.
func (w *world) existing(key types.NamespacedName) (int32, *sharedClaim) {
	w.mu.Lock()
	id, known := w.claimIDs[key]
	w.mu.Unlock()
	if !known {
		return 0, nil
	}
	return id, w.realClaim(id)
}

// claim returns the number of a claim that exists, or that will be generated for a pod.
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

// claimOf returns a claim with its spec. The error is about its annotation.
func (w *world) claimOf(object *resourceapi.ResourceClaim) (sharedClaim, error) {
	more, err := w.extensionOf(object) // pods that refer to such a claim get the same error
	return sharedClaim{object: object, spec: w.Spec(&object.Spec.Devices, more)}, err
}

// realClaim returns the existing claim with a number, nil if there is none.
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

// consumer returns the entry of status.reservedFor for a pod that uses the claim: the pod, or its PodGroup.
func (w *world) consumer(id int32, pod *corev1.Pod) resourceapi.ResourceClaimConsumerReference {
	return w.resolver.Consumer(w.claimNumbered(id).object, pod)
}

// extensionOf returns what the annotation of a claim asks for. It is empty unless Options.Extensions is set.
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

// specOfClaim returns the spec of a claim with what its annotation asks for. The error is about the annotation.
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

// isOfPod reports whether a claim was generated for this pod alone.
func isOfPod(podClaim corev1.PodResourceClaim, claim *resourceapi.ResourceClaim) bool {
	owner := metav1.GetControllerOfNoCopy(claim)
	return podClaim.ResourceClaimTemplateName != nil && owner != nil && owner.Kind == "Pod"
}

// namedError returns the error of compiling a pod's claims with the names that they have, or will have.
func (w *world) namedError(pod *corev1.Pod, unnamed error) error {
	var claims []*resourceapi.ResourceClaim
	var more []extension.Claim
	for _, podClaim := range pod.Spec.ResourceClaims {
		claim, err := w.resolver.Resolve(pod, podClaim)
		if err != nil || claim == nil {
			continue
		}
		s, err := w.specOfClaim(claim)
		if err != nil {
			return err
		}
		claims = append(claims, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name}, Spec: resourceapi.ResourceClaimSpec{Devices: s.Devices}})
		more = append(more, s.More)
	}
	if _, err := w.Compile(claims, more); err != nil {
		return err
	}
	return unnamed
}
