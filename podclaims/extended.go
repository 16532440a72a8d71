// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package podclaims

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// IsExtended reports whether a resource of a container is an extended resource, which a device plugin or
// devices provide.
func IsExtended(name corev1.ResourceName) bool {
	if strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix) {
		return true
	}
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
}

// ExtendedResources lists the extended resources that a pod asks for, sorted.
func ExtendedResources(pod *corev1.Pod) []corev1.ResourceName {
	if !mentionsExtended(pod) {
		return nil // most pods
	}
	var names []corev1.ResourceName
	for name, quantity := range podresources.PodRequests(pod, podresources.PodResourcesOptions{}) {
		if IsExtended(name) && !quantity.IsZero() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// mentionsExtended reports whether a pod lists an extended resource anywhere.
func mentionsExtended(pod *corev1.Pod) bool {
	lists := func(list corev1.ResourceList) bool {
		for name := range list {
			if IsExtended(name) {
				return true
			}
		}
		return false
	}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if lists(containers[i].Resources.Requests) {
				return true
			}
		}
	}
	return lists(pod.Spec.Overhead) || pod.Spec.Resources != nil && lists(pod.Spec.Resources.Requests)
}

// ClassesByResource maps each extended resource to its class: spec.extendedResourceName, and
// deviceclass.resource.kubernetes.io/NAME for all classes. If several classes have the same
// extendedResourceName, the newest wins, and among equally old ones the first by name.
func ClassesByResource(classes []*resourceapi.DeviceClass) map[corev1.ResourceName]*resourceapi.DeviceClass {
	found := make(map[corev1.ResourceName]*resourceapi.DeviceClass)
	for _, class := range classes {
		found[corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix+class.Name)] = class
		if class.Spec.ExtendedResourceName == nil {
			continue
		}
		name := corev1.ResourceName(*class.Spec.ExtendedResourceName)
		if other := found[name]; other == nil || preferred(class, other) {
			found[name] = class
		}
	}
	return found
}

func preferred(class, other *resourceapi.DeviceClass) bool {
	newer := class.CreationTimestamp.Compare(other.CreationTimestamp.Time)
	return cmp.Or(-newer, strings.Compare(class.Name, other.Name)) < 0
}

// ClassOf returns the class of an extended resource, nil if there is none.
type ClassOf func(name corev1.ResourceName) *resourceapi.DeviceClass

// FromDevices lists the extended resources of a pod that devices have to provide on a node, in the given order.
// These have a class, and no device plugin of the node provides them. Missing is the first resource that
// neither provides, empty if there is none.
func FromDevices(asked []corev1.ResourceName, node *corev1.Node, classOf ClassOf) (names []corev1.ResourceName, missing corev1.ResourceName) {
	for _, name := range asked {
		plugged, listed := node.Status.Allocatable[name]
		switch {
		case plugged.IsZero() && classOf(name) != nil:
			names = append(names, name)
		case !listed && missing == "":
			missing = name
		}
	}
	return names, missing
}

// ExtendedClaim is the claim that kube-scheduler makes for the extended resources of a pod, without name and
// requests.
func ExtendedClaim(pod *corev1.Pod) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace:       pod.Namespace,
		GenerateName:    pod.Name + "-extended-resources-",
		Annotations:     map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}},
	}}
}

// AllExtendedRequests turns several extended resources of a pod into the requests of one claim, sorted by name,
// and maps containers to requests: see ExtendedRequests. Resources without a class are left out.
func AllExtendedRequests(pod *corev1.Pod, names []corev1.ResourceName, classOf ClassOf) (requests []resourceapi.DeviceRequest, mappings []corev1.ContainerExtendedResourceRequest) {
	for _, name := range names {
		class := classOf(name)
		if class == nil {
			continue
		}
		r, m := ExtendedRequests(pod, name, class.Name)
		requests, mappings = append(requests, r...), append(mappings, m...)
	}
	slices.SortFunc(requests, func(a, b resourceapi.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	return requests, mappings
}

// ExtendedRequests turns one extended resource of a pod into requests for devices of a class, and maps
// containers to requests. Containers that run at the same time have separate devices. An init container ends
// before the next container starts, so it uses devices of later containers. If it needs more, one more request
// serves all init containers; the largest need decides. Mappings of containers that keep running come first,
// then those of init containers.
func ExtendedRequests(pod *corev1.Pod, name corev1.ResourceName, className string) ([]resourceapi.DeviceRequest, []corev1.ContainerExtendedResourceRequest) {
	r := newResourceRequests(pod, name, className)
	return r.requests(), r.mappings
}

// resourceRequests are the requests for one extended resource.
type resourceRequests struct {
	resource  corev1.ResourceName
	className string
	// lasting are the requests of containers that keep running, by container; nil for others.
	lasting []*resourceapi.DeviceRequest
	// passing is the largest request of an init container beyond the devices of later containers.
	passing *resourceapi.DeviceRequest
	// mappings are those of lasting containers, then those of init containers.
	mappings []corev1.ContainerExtendedResourceRequest
}

func newResourceRequests(pod *corev1.Pod, name corev1.ResourceName, className string) *resourceRequests {
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	r := &resourceRequests{resource: name, className: className, lasting: make([]*resourceapi.DeviceRequest, len(containers))}
	passes := func(i int) bool {
		policy := containers[i].RestartPolicy
		return i < len(pod.Spec.InitContainers) && (policy == nil || *policy != corev1.ContainerRestartPolicyAlways)
	}
	for i := range containers {
		if !passes(i) {
			r.lasting[i] = r.add(i, &containers[i], nil)
		}
	}
	first := len(r.mappings)
	beyond := make(map[string]bool)
	for i := range containers {
		if !passes(i) {
			continue
		}
		if request := r.add(i, &containers[i], r.lasting[i:]); request != nil {
			beyond[request.Name] = true
			if r.passing == nil || request.Exactly.Count > r.passing.Exactly.Count {
				r.passing = request
			}
		}
	}
	// The largest request serves all init containers, one after the other.
	for i := range r.mappings[first:] {
		if mapping := &r.mappings[first+i]; beyond[mapping.RequestName] {
			mapping.RequestName = r.passing.Name
		}
	}
	return r
}

// add maps a container to requests from which it can borrow, and to a new request for the rest. It returns the
// new request, nil if there is none.
func (r *resourceRequests) add(index int, container *corev1.Container, borrowed []*resourceapi.DeviceRequest) *resourceapi.DeviceRequest {
	quantity := container.Resources.Requests[r.resource]
	needed, exact := quantity.AsInt64()
	if !exact || needed == 0 {
		return nil
	}
	for _, request := range borrowed {
		if request == nil {
			continue
		}
		r.use(container.Name, request.Name)
		if needed -= request.Exactly.Count; needed <= 0 {
			return nil
		}
	}
	// The kubelet reads the name. It has the position of the container, and that of the resource among those of
	// the container, sorted by name.
	sorted := slices.Sorted(maps.Keys(container.Resources.Requests))
	request := &resourceapi.DeviceRequest{
		Name: fmt.Sprintf("container-%d-request-%d", index, slices.Index(sorted, r.resource)),
		Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: r.className,
			AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
			Count:           needed,
		},
	}
	r.use(container.Name, request.Name)
	return request
}

func (r *resourceRequests) use(container, request string) {
	r.mappings = append(r.mappings, corev1.ContainerExtendedResourceRequest{
		ContainerName: container, ResourceName: string(r.resource), RequestName: request,
	})
}

func (r *resourceRequests) requests() []resourceapi.DeviceRequest {
	var list []resourceapi.DeviceRequest
	for _, request := range append(r.lasting, r.passing) {
		if request != nil {
			list = append(list, *request)
		}
	}
	return list
}
