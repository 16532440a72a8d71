package schedplugin

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// podClaim is one claim of a pod.
type podClaim struct {
	// object is the claim as last seen. It is never modified, but replaced by what the
	// API server returns.
	object *resourceapi.ResourceClaim
	// name is how the pod calls the claim. Empty if it is for extended resources.
	name string
	// consumer is whom the claim is reserved for: the pod or its group.
	consumer resourceapi.ResourceClaimConsumerReference
	// extended is set if the claim is the scheduler's own, for extended resources.
	extended bool
	// reach selects the nodes on which the allocation is available. Nil: all nodes, or
	// not allocated.
	reach *nodeaffinity.NodeSelector
	// pending is an allocation that is not in the API server: made in Reserve for this pod,
	// or, before that, for another pod of its group.
	pending *resourceapi.AllocationResult
	// inFlight is the UID under which Reserve announced the allocation. Empty if it did not,
	// or if the allocation is no longer in flight.
	inFlight types.UID
}

// allocated is the allocation in the API server or in flight, nil if there is none.
func (c *podClaim) allocated() *resourceapi.AllocationResult {
	if c.object.Status.Allocation != nil {
		return c.object.Status.Allocation
	}
	return c.pending
}

// unmade reports whether the claim exists in memory only.
func (c *podClaim) unmade() bool { return c.extended && c.object.Name == unmadeClaimName }

// resolve finds the claims of a pod. Claims for which none was generated, because none is
// needed, are left out. An error says why the pod cannot be scheduled now.
func (p *Plugin) resolve(pod *corev1.Pod) ([]*podClaim, error) {
	claims := make([]*podClaim, 0, len(pod.Spec.ResourceClaims)+1)
	for i := range pod.Spec.ResourceClaims {
		reference := &pod.Spec.ResourceClaims[i]
		object, err := p.lookup(pod, reference)
		if err != nil {
			return nil, err
		}
		if object != nil {
			claims = append(claims, &podClaim{object: object, name: reference.Name, consumer: podConsumer(pod)})
		}
	}
	return claims, nil
}

func (p *Plugin) lookup(pod *corev1.Pod, reference *corev1.PodResourceClaim) (*resourceapi.ResourceClaim, error) {
	name, owned, err := resourceclaim.Name(pod, reference)
	if err != nil || name == nil {
		return nil, err
	}
	claim, err := p.dra.ResourceClaims().Get(pod.Namespace, *name)
	if err != nil {
		return nil, err
	}
	if claim.DeletionTimestamp != nil {
		return nil, fmt.Errorf("resourceclaim %q is being deleted", claim.Name)
	}
	if owned {
		err = resourceclaim.IsForPod(pod, claim, p.features.EnableDRAWorkloadResourceClaims)
	}
	return claim, err
}

func podConsumer(pod *corev1.Pod) resourceapi.ResourceClaimConsumerReference {
	return resourceapi.ResourceClaimConsumerReference{
		APIGroup: corev1.GroupName, Resource: "pods", Name: pod.Name, UID: pod.UID,
	}
}

// assignConsumers finds out which of the claims are those of the pod's group.
func (p *Plugin) assignConsumers(pod *corev1.Pod, claims []*podClaim) error {
	if !p.features.EnableDRAWorkloadResourceClaims {
		return nil
	}
	group, err := p.podGroup(pod)
	if err != nil {
		return err
	}
	references := make(map[string]*corev1.PodResourceClaim, len(pod.Spec.ResourceClaims))
	for i := range pod.Spec.ResourceClaims {
		references[pod.Spec.ResourceClaims[i].Name] = &pod.Spec.ResourceClaims[i]
	}
	for _, claim := range claims {
		if claim.consumer, err = resourceclaim.BindTo(pod, group, references[claim.name]); err != nil {
			return err
		}
	}
	return nil
}

// podGroup returns the group of a pod, nil if it has none.
func (p *Plugin) podGroup(pod *corev1.Pod) (*schedulingapi.PodGroup, error) {
	if !p.features.EnableDRAWorkloadResourceClaims ||
		pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return nil, nil
	}
	return p.handle.SnapshotSharedLister().PodGroups().Get(pod.Namespace, *pod.Spec.SchedulingGroup.PodGroupName)
}

// reservedFor reports whether the claim is reserved for the pod, or for its group.
func (p *Plugin) reservedFor(pod *corev1.Pod, claim *resourceapi.ResourceClaim) bool {
	return resourceclaim.IsReservedForPod(pod, claim, p.features.EnableDRAWorkloadResourceClaims)
}
