// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/podclaims"
)

// newResolver finds the class behind the name of an extended resource: its
// spec.extendedResourceName, or deviceclass.resource.kubernetes.io/NAME. Nil, which finds
// none, if the feature is off.
func newResolver(classes []*resourceapi.DeviceClass, enabled bool) *extendedresourcecache.ExtendedResourceCache {
	if !enabled {
		return nil
	}
	resolver := extendedresourcecache.NewExtendedResourceCache(klog.Background())
	for _, class := range classes {
		resolver.OnAdd(class, true)
	}
	return resolver
}

// usesDevices reports whether a pod has claims, or extended resources that devices may
// stand for.
func usesDevices(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || len(podclaims.ExtendedResources(pod)) > 0
}

// fromDevices lists those of a pod's extended resources that devices have to provide on
// the node: a class stands for them, and no device plugin of the node does. Missing is one
// that neither provides.
func (c *Cluster) fromDevices(asked []corev1.ResourceName, node *corev1.Node) (names []corev1.ResourceName, missing corev1.ResourceName) {
	for _, name := range asked {
		plugged, listed := node.Status.Allocatable[name]
		switch {
		case plugged.IsZero() && c.resolver.GetDeviceClass(name) != nil:
			names = append(names, name)
		case !listed && missing == "":
			missing = name
		}
	}
	return names, missing
}

// noProvider says that a node does not have an extended resource.
func (c *Cluster) noProvider(name corev1.ResourceName, node *corev1.Node) string {
	if !c.options.ExtendedResources {
		return fmt.Sprintf("the node does not list %s as allocatable, and the feature gate DRAExtendedResource is off, with which devices could stand for it", name)
	}
	if class, isClass := strings.CutPrefix(string(name), resourceapi.ResourceDeviceClassPrefix); isClass {
		return fmt.Sprintf("DeviceClass %s, of which %s is asked, does not exist", class, name)
	}
	lists := "does not list %s as allocatable"
	if len(node.Status.Allocatable) == 0 {
		lists = "has no status.allocatable that could list %s"
	}
	return fmt.Sprintf("the node "+lists+", and no DeviceClass has it as extendedResourceName", name)
}

// extendedClaim is the claim that the scheduler makes for extended resources of a pod. It
// is nil if there are none.
func (c *Cluster) extendedClaim(pod *corev1.Pod, names []corev1.ResourceName) *resourceapi.ResourceClaim {
	var requests []resourceapi.DeviceRequest
	for _, name := range names {
		if class := c.resolver.GetDeviceClass(name); class != nil {
			more, _ := podclaims.ExtendedRequests(pod, name, class.Name)
			requests = append(requests, more...)
		}
	}
	if len(requests) == 0 {
		return nil
	}
	slices.SortFunc(requests, func(a, b resourceapi.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	base := pod.Name + "-extended-resources-"
	key := types.NamespacedName{Namespace: pod.Namespace, Name: podclaims.WithSuffix(pod.Namespace, base)}
	owner := metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))
	owner.UID = c.claims.PodUID(pod)
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: base, Name: key.Name, Namespace: key.Namespace, UID: madeUpUID("ResourceClaim", key),
			Annotations:     map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}},
	}
}

// extendedUsers says which request is for which container.
func extendedUsers(pod *corev1.Pod, claim *resourceapi.ResourceClaim) string {
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	var users []string
	for _, request := range claim.Spec.Devices.Requests {
		var container, resource int
		if n, err := fmt.Sscanf(request.Name, requestName, &container, &resource); n != 2 || err != nil || container >= len(containers) {
			continue
		}
		names := slices.Sorted(maps.Keys(containers[container].Resources.Requests))
		if resource < len(names) {
			users = append(users, fmt.Sprintf("container %s (%s is %s)", containers[container].Name, request.Name, names[resource]))
		}
	}
	return strings.Join(users, ", ")
}

// requestName is how requests for extended resources are called: by the position of the
// container and that of the resource.
const requestName = "container-%d-request-%d"

// IsExtended reports whether a claim is made for the extended resources of a pod.
func (c *Cluster) IsExtended(claim *resourceapi.ResourceClaim) bool { return isExtendedClaim(claim) }

func isExtendedClaim(claim *resourceapi.ResourceClaim) bool {
	return claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true"
}
