// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/podclaims"
)

// usesDevices reports whether a pod has claims, or extended resources that devices may provide.
func usesDevices(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || len(podclaims.ExtendedResources(pod)) > 0
}

// classOf returns the class of an extended resource, nil if there is none or the feature is off.
func (c *Cluster) classOf(name corev1.ResourceName) *resourceapi.DeviceClass { return c.extended[name] }

// fromDevices returns the pod's extended resources that devices must provide on the node, and one
// that is not available there at all.
func (c *Cluster) fromDevices(asked []corev1.ResourceName, node *corev1.Node) (names []corev1.ResourceName, missing corev1.ResourceName) {
	return podclaims.FromDevices(asked, node, c.classOf)
}

// noProvider returns why a node cannot provide an extended resource.
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

// extendedClaim returns the claim that the scheduler creates for a pod's extended resources, or nil
// if there are none.
func (c *Cluster) extendedClaim(pod *corev1.Pod, names []corev1.ResourceName) *resourceapi.ResourceClaim {
	requests, _ := podclaims.AllExtendedRequests(pod, names, c.classOf)
	if len(requests) == 0 {
		return nil
	}
	claim := podclaims.ExtendedClaim(pod)
	key := types.NamespacedName{Namespace: pod.Namespace, Name: podclaims.WithSuffix(pod.Namespace, claim.GenerateName)}
	claim.Name, claim.UID, claim.OwnerReferences[0].UID = key.Name, madeUpUID("ResourceClaim", key), c.claims.PodUID(pod)
	claim.Spec.Devices.Requests = requests
	return claim
}

// extendedUsers maps requests to containers.
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

// requestName is the format of requests' names for extended resources: index of the container, and
// index of the resource.
const requestName = "container-%d-request-%d"

// IsExtended reports whether a claim is made for the extended resources of a pod.
func (c *Cluster) IsExtended(claim *resourceapi.ResourceClaim) bool { return isExtendedClaim(claim) }

func isExtendedClaim(claim *resourceapi.ResourceClaim) bool {
	return claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true"
}
