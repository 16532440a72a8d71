// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podclaims

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/internal/index/persist"
)

// Resolver finds the claims of pods among the objects of a cluster. Several goroutines may read it as long as
// none changes it.
type Resolver struct {
	claims    map[types.NamespacedName]*resourceapi.ResourceClaim
	templates map[types.NamespacedName]*resourceapi.ResourceClaimTemplate
	groups    map[types.NamespacedName]*schedulingapi.PodGroup
	made      map[purpose]*resourceapi.ResourceClaim
	newUID    NewUID
	// madeTwice is set if two claims were made for the same entry.
	madeTwice bool
	// changed overrides claims, and changedMade overrides made: nil means deleted.
	changed     persist.Map[types.NamespacedName, *resourceapi.ResourceClaim]
	changedMade persist.Map[purpose, *resourceapi.ResourceClaim]
}

// NewResolver returns a Resolver of an empty cluster. With nil newUID, generated objects have no UID.
func NewResolver(newUID NewUID) *Resolver {
	if newUID == nil {
		newUID = func(string, types.NamespacedName) types.UID { return "" }
	}
	return &Resolver{
		claims:    make(map[types.NamespacedName]*resourceapi.ResourceClaim),
		templates: make(map[types.NamespacedName]*resourceapi.ResourceClaimTemplate),
		groups:    make(map[types.NamespacedName]*schedulingapi.PodGroup),
		made:      make(map[purpose]*resourceapi.ResourceClaim),
		newUID:    newUID,
	}
}

// SetClaim adds a claim, or replaces the one of the same name.
func (r *Resolver) SetClaim(claim *resourceapi.ResourceClaim) {
	key := keyOf(claim)
	r.claims[key] = claim
	if made, ok := purposeOf(claim); ok {
		before := r.made[made]
		r.madeTwice = r.madeTwice || before != nil && keyOf(before) != key
		r.made[made] = claim
	}
}

// purposeOf returns the entry for which a claim was made. It is false for a claim that a user made.
func purposeOf(claim *resourceapi.ResourceClaim) (made purpose, ok bool) {
	podClaim, annotated := claim.Annotations[resourceapi.PodResourceClaimAnnotation]
	owner := metav1.GetControllerOfNoCopy(claim)
	if !annotated || owner == nil {
		return purpose{}, false
	}
	return purpose{owner.Kind, types.NamespacedName{Namespace: claim.Namespace, Name: owner.Name}, podClaim}, true
}

// Next returns a Resolver in which some claims are gone, and others are added or replaced. r stays unchanged,
// and both share data: neither may be changed by SetClaim, SetTemplate or SetGroup any more. The time is in
// proportion to the given claims. It is false if two claims were made for the same entry of a pod: which one
// counts then depends on the order of all claims.
func (r *Resolver) Next(gone []types.NamespacedName, set []*resourceapi.ResourceClaim) (*Resolver, bool) {
	next := *r
	take := func(key types.NamespacedName) {
		before := next.Claim(key)
		if before == nil {
			return
		}
		next.changed = next.changed.With(key, nil)
		if made, ok := purposeOf(before); ok {
			next.changedMade = next.changedMade.With(made, nil)
		}
	}
	for _, key := range gone {
		take(key)
	}
	for _, claim := range set {
		take(keyOf(claim))
	}
	for _, claim := range set {
		key := keyOf(claim)
		next.changed = next.changed.With(key, claim)
		if made, ok := purposeOf(claim); ok {
			if other, found := next.claimFor(made); found && other != key {
				next.madeTwice = true
			}
			next.changedMade = next.changedMade.With(made, claim)
		}
	}
	return &next, !next.madeTwice
}

// claimFor returns the key of the claim that was made for an entry.
func (r *Resolver) claimFor(made purpose) (key types.NamespacedName, found bool) {
	claim, changed := r.changedMade.Get(made)
	if !changed {
		claim = r.made[made]
	}
	if claim == nil {
		return types.NamespacedName{}, false
	}
	return keyOf(claim), true
}

// SetTemplate adds a template.
func (r *Resolver) SetTemplate(template *resourceapi.ResourceClaimTemplate) {
	r.templates[keyOf(template)] = template
}

// SetGroup adds a PodGroup. If the group of a pod is unknown, its claims are those of a single pod.
func (r *Resolver) SetGroup(group *schedulingapi.PodGroup) { r.groups[keyOf(group)] = group }

// Claim returns a claim, nil if there is none of that name.
func (r *Resolver) Claim(key types.NamespacedName) *resourceapi.ResourceClaim {
	if claim, changed := r.changed.Get(key); changed {
		return claim
	}
	return r.claims[key]
}

// Template returns a template, nil if there is none of that name.
func (r *Resolver) Template(key types.NamespacedName) *resourceapi.ResourceClaimTemplate {
	return r.templates[key]
}

// Missing is an object that a pod refers to and that does not exist.
type Missing struct { //nolint:errname // named after what is missing
	Kind string // ResourceClaim or ResourceClaimTemplate
	Key  types.NamespacedName
}

// Error implements error.
func (m *Missing) Error() string { return fmt.Sprintf("%s %s does not exist", m.Kind, m.Key) }

// Resolve returns the claim behind an entry of a pod's spec, or the claim that will be made from its template.
// It is nil without an error if the pod's status says that no claim is needed. A *Missing error names the
// object that does not exist.
func (r *Resolver) Resolve(pod *corev1.Pod, podClaim corev1.PodResourceClaim) (*resourceapi.ResourceClaim, error) {
	if status := claimStatus(pod, podClaim.Name); status != nil && status.ResourceClaimName == nil {
		return nil, nil
	}
	key := r.Key(pod, podClaim)
	claim := r.Claim(key)
	switch {
	case claim != nil && podClaim.ResourceClaimTemplateName != nil && !r.wasMadeFor(claim, pod, podClaim):
		return nil, fmt.Errorf("ResourceClaim %s was not made for this pod", key)
	case claim != nil:
		return claim, nil
	case podClaim.ResourceClaimTemplateName == nil:
		return nil, &Missing{Kind: "ResourceClaim", Key: key}
	}
	templateKey := types.NamespacedName{Namespace: pod.Namespace, Name: *podClaim.ResourceClaimTemplateName}
	template := r.templates[templateKey]
	if template == nil {
		return nil, &Missing{Kind: "ResourceClaimTemplate", Key: templateKey}
	}
	if group := r.Group(pod, podClaim); group != nil {
		return r.generateForGroup(template, group, podClaim.Name), nil
	}
	return r.generate(template, pod, podClaim.Name), nil
}

// Key is the key of the claim behind an entry of the pod's spec. It is the claim that the entry or the pod's
// status names, one that was made for the pod, or the one that will be.
func (r *Resolver) Key(pod *corev1.Pod, podClaim corev1.PodResourceClaim) types.NamespacedName {
	key := types.NamespacedName{Namespace: pod.Namespace}
	if podClaim.ResourceClaimName != nil {
		key.Name = *podClaim.ResourceClaimName
		return key
	}
	if status := claimStatus(pod, podClaim.Name); status != nil && status.ResourceClaimName != nil {
		key.Name = *status.ResourceClaimName
		return key
	}
	if group := r.Group(pod, podClaim); group != nil {
		return r.groupClaimKey(group, podClaim.Name)
	}
	if made, found := r.claimFor(purpose{"Pod", keyOf(pod), podClaim.Name}); found && r.ownedBy(r.Claim(made), pod) {
		return made
	}
	key.Name = generatedName(pod, podClaim.Name)
	return key
}

// purpose is an entry in the spec of a Pod or PodGroup, for which a claim was made.
type purpose struct {
	kind     string
	owner    types.NamespacedName
	podClaim string
}

func claimStatus(pod *corev1.Pod, podClaimName string) *corev1.PodResourceClaimStatus {
	for i := range pod.Status.ResourceClaimStatuses {
		if pod.Status.ResourceClaimStatuses[i].Name == podClaimName {
			return &pod.Status.ResourceClaimStatuses[i]
		}
	}
	return nil
}

// ownedBy does not compare UIDs if the pod has none, as pods in files often do.
func (r *Resolver) ownedBy(claim *resourceapi.ResourceClaim, pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(claim)
	return owner != nil && owner.Kind == "Pod" && owner.Name == pod.Name &&
		(pod.UID == "" || owner.UID == r.PodUID(pod))
}

type named interface {
	GetNamespace() string
	GetName() string
}

func keyOf(object named) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
