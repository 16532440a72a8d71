// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package charge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/podclaims"
)

// KueueExtended is what kueue counts for the extended resources of a pod, before a claim exists. It covers the
// resources that DeviceClasses serve with devices (spec.extendedResourceName). Each counts under the name of
// the mapping of its class, or else under its own name. The requests of containers are added up; of init
// containers the largest counts, and the larger of both is charged.
//
// Cluster.Of counts the claim that kube-scheduler makes for these resources: see podclaims.ExtendedClaim and
// podclaims.AllExtendedRequests.
//
// An error names the resource. Its class has a mapping with sources, which kueue refuses, or a container asks
// for a fraction, or the sum exceeds an int64.
func KueueExtended(spec *corev1.PodSpec, classes []*resourceapi.DeviceClass, mappings []Mapping) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	if spec == nil {
		return list, nil
	}
	classOf := podclaims.ClassesByResource(classes)
	together, largest := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.Containers {
		for name, quantity := range asked(&spec.Containers[i]) {
			sum := together[name].DeepCopy()
			sum.Add(quantity)
			together[name] = sum
		}
	}
	for _, all := range []corev1.ResourceList{together, largestAsked(spec.InitContainers)} {
		for name, quantity := range all {
			if quantity.Cmp(largest[name]) > 0 {
				largest[name] = quantity
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(largest)) {
		class, quantity := classOf[name], largest[name]
		if class == nil || strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix) {
			continue
		}
		to := name
		for _, m := range mappings {
			if !slices.Contains(m.Classes, class.Name) {
				continue
			}
			if len(m.Sources) > 0 {
				return nil, fmt.Errorf("resource %s: class %s has a mapping with sources: %s", name, class.Name, m.Resource)
			}
			if to == name {
				to = m.Resource
			}
		}
		for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
			if part := container.Resources.Requests[name]; part.Sign() > 0 && !isWhole(part) {
				return nil, fmt.Errorf("container %s: resource %s: %s is no whole number", container.Name, name, part.String())
			}
		}
		if !isWhole(quantity) {
			return nil, fmt.Errorf("resource %s: %s is too much", name, quantity.String())
		}
		addTo(list, to, quantity.Value())
	}
	return list, nil
}

// asked returns the extended resources of a container that are above zero.
func asked(container *corev1.Container) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, quantity := range container.Resources.Requests {
		if quantity.Sign() > 0 && podclaims.IsExtended(name) {
			list[name] = quantity
		}
	}
	return list
}

// largestAsked returns, for each extended resource, the largest amount that any container asks for.
func largestAsked(containers []corev1.Container) corev1.ResourceList {
	largest := corev1.ResourceList{}
	for i := range containers {
		for name, quantity := range asked(&containers[i]) {
			if quantity.Cmp(largest[name]) > 0 {
				largest[name] = quantity
			}
		}
	}
	return largest
}

func isWhole(q resource.Quantity) bool {
	_, whole := q.AsInt64()
	return whole
}
