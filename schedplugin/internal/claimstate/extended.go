// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claimstate

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/podclaims"
)

// unmadeClaimName is the name of the claim for extended resources until PreBind creates it.
// No claim in the API server can have it.
const unmadeClaimName = "<extended-resources>"

// Amounts are what a pod asks of extended resources, by name. All are above zero.
type Amounts map[corev1.ResourceName]int64

// ExtendedClaim returns the claim that stands for the extended resources of a pod which
// devices can serve, and what the pod asks of all extended resources. The claim is the one that
// an earlier attempt left behind, or else one that does not exist yet. It is nil if there is
// nothing that devices can serve.
func (s Source) ExtendedClaim(pod *corev1.Pod) (*Claim, Amounts, error) {
	asked := s.fromDevices(pod)
	if asked == nil {
		return nil, nil, nil
	}
	object, err := s.leftBehind(pod)
	if err != nil {
		return nil, nil, err
	}
	if object == nil {
		object = unmadeClaim(pod)
	}
	return &Claim{Object: object, Extended: true, Consumer: PodConsumer(pod)}, asked, nil
}

// AsksForExtended reports whether the pod asks for extended resources that devices can serve.
func (s Source) AsksForExtended(pod *corev1.Pod) bool { return s.fromDevices(pod) != nil }

// fromDevices returns what the pod asks of all extended resources, nil if devices can serve none of them.
func (s Source) fromDevices(pod *corev1.Pod) Amounts {
	if !s.Extended || !listsExtended(pod) {
		return nil
	}
	amounts := amountsOf(pod)
	for name := range amounts {
		if s.servedByDevices(name) {
			return amounts
		}
	}
	return nil
}

// listsExtended reports whether adding up what a pod asks for can come to an extended resource. For most pods it
// cannot, and adding up costs more.
func listsExtended(pod *corev1.Pod) bool {
	lists := func(requests corev1.ResourceList) bool {
		for name := range requests {
			if schedutil.IsDRAExtendedResourceName(name) {
				return true
			}
		}
		return false
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if lists(containers[i].Resources.Requests) {
				return true
			}
		}
	}
	return lists(pod.Spec.Overhead)
}

func amountsOf(pod *corev1.Pod) Amounts {
	amounts := make(Amounts)
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	for name, amount := range framework.NewResource(requests).ScalarResources {
		if amount != 0 && schedutil.IsDRAExtendedResourceName(name) {
			amounts[name] = amount
		}
	}
	return amounts
}

// servedByDevices reports whether a class offers devices under the name of the resource.
func (s Source) servedByDevices(name corev1.ResourceName) bool {
	return s.DRA.DeviceClassResolver().GetDeviceClass(name) != nil
}

// ExtendedClaims is a ResourceClaimTracker that finds claims for extended resources. With another one,
// all claims have to be looked at for each pod that asks for such resources.
type ExtendedClaims interface {
	// ExtendedClaim returns the claim that exists for the extended resources of a pod, nil if there is
	// none.
	ExtendedClaim(pod *corev1.Pod) *resourceapi.ResourceClaim
}

// leftBehind returns the claim for extended resources that exists for a pod, nil if there is none.
func (s Source) leftBehind(pod *corev1.Pod) (*resourceapi.ResourceClaim, error) {
	if tracker, finds := s.DRA.ResourceClaims().(ExtendedClaims); finds {
		return tracker.ExtendedClaim(pod), nil
	}
	list, err := s.DRA.ResourceClaims().List()
	if err != nil {
		return nil, fmt.Errorf("list resource claims: %w", err)
	}
	for _, claim := range list {
		if MadeFor(claim, pod) && metav1.GetControllerOfNoCopy(claim).Name == pod.Name {
			return claim, nil
		}
	}
	return nil, nil
}

func unmadeClaim(pod *corev1.Pod) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace,
			Name:      unmadeClaimName,
			// Identifies it while it is in flight. The API server will choose another one.
			UID:          uuid.NewUUID(),
			GenerateName: pod.Name + "-extended-resources-",
			Annotations:  map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true),
			}},
		},
	}
}

// FromDevices returns the resources that devices have to provide on a node, sorted, and one
// that neither devices nor a device plugin provide.
func (s Source) FromDevices(asked Amounts, nodeInfo fwk.NodeInfo) (names []string, missing string) {
	plugged := nodeInfo.GetAllocatable().GetScalarResources()
	for name := range asked {
		amount, listed := plugged[name]
		switch {
		case amount == 0 && s.servedByDevices(name):
			names = append(names, string(name))
		case !listed && (missing == "" || string(name) < missing):
			missing = string(name)
		}
	}
	slices.Sort(names)
	return names, missing
}

// DeviceRequests turns the extended resources of a pod into requests for devices, sorted by name,
// and says which container uses which.
func (s Source) DeviceRequests(pod *corev1.Pod, names []string) ([]resourceapi.DeviceRequest, []corev1.ContainerExtendedResourceRequest) {
	var requests []resourceapi.DeviceRequest
	var mappings []corev1.ContainerExtendedResourceRequest
	for _, name := range names {
		class := s.DRA.DeviceClassResolver().GetDeviceClass(corev1.ResourceName(name))
		if class == nil {
			continue // gone since the node was looked at
		}
		r, m := podclaims.ExtendedRequests(pod, corev1.ResourceName(name), class.Name)
		requests = append(requests, r...)
		mappings = append(mappings, m...)
	}
	slices.SortFunc(requests, func(a, b resourceapi.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	return requests, mappings
}
