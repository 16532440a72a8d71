// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
)

// CDIDevices returns the qualified names of the CDI devices that each container of a pod
// gets, init containers included, by the container's name. Containers without devices
// are left out. It is an error if a claim of the pod is not prepared.
func (p *Preparer) CDIDevices(pod *v1.Pod) (map[string][]string, error) {
	byName := p.claimsOf(pod)
	out := make(map[string][]string)
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		uses, err := usesOf(pod, &container)
		if err != nil {
			return nil, fmt.Errorf("pod %s: container %s: %w", klog.KObj(pod), container.Name, err)
		}
		for _, use := range uses {
			known := byName[use.claim]
			if known == nil || !known.prepared() {
				return nil, fmt.Errorf("pod %s: container %s: claim %s/%s is not prepared", klog.KObj(pod), container.Name, pod.Namespace, use.claim)
			}
			for _, id := range known.cdiDevices(use.request) {
				if !slices.Contains(out[container.Name], id) {
					out[container.Name] = append(out[container.Name], id)
				}
			}
		}
	}
	return out, nil
}

// claimsOf returns the records of a pod's claims, by claim name.
func (p *Preparer) claimsOf(pod *v1.Pod) map[string]*claimRecord {
	byName := make(map[string]*claimRecord)
	for _, known := range p.records.all(ofPod(pod.UID)) {
		byName[known.Name] = known
	}
	return byName
}

// use is a claim, or one of its requests, that a container uses.
type use struct {
	claim    string          // name of the claim
	request  string          // name of the request; empty: all requests
	resource v1.ResourceName // name of the resource in the pod's status; empty: it has none there
}

// usesOf returns the claims that a container uses, including the one that Kubernetes generated for
// its extended resources.
func usesOf(pod *v1.Pod, container *v1.Container) ([]use, error) {
	var out []use
	for _, wanted := range container.Resources.Claims {
		i := slices.IndexFunc(pod.Spec.ResourceClaims, func(reference v1.PodResourceClaim) bool { return reference.Name == wanted.Name })
		if i < 0 {
			return nil, fmt.Errorf("claim %q: not in the pod", wanted.Name)
		}
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name != nil {
			out = append(out, use{*name, wanted.Request, resourceName(wanted.Name, wanted.Request)})
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		for _, mapping := range extended.RequestMappings {
			if mapping.ContainerName == container.Name {
				out = append(out, use{claim: extended.ResourceClaimName, request: mapping.RequestName})
			}
		}
	}
	return out, nil
}

// resourceName returns the name of a claim's devices in the status of a container.
func resourceName(claim, request string) v1.ResourceName {
	if request != "" {
		claim += "/" + request
	}
	return v1.ResourceName("claim:" + claim)
}

// prepared tells whether all drivers have prepared the claim.
func (r *claimRecord) prepared() bool {
	for _, driver := range r.Drivers {
		if !driver.isReady() {
			return false
		}
	}
	return true
}

// cdiDevices returns the CDI devices of a request, or of all requests if it is empty.
func (r *claimRecord) cdiDevices(request string) []string {
	var out []string
	for _, name := range r.driverNames() {
		for _, prepared := range r.Drivers[name].Devices {
			if prepared.isFor(request) {
				out = append(out, prepared.CDI...)
			}
		}
	}
	return out
}

// isFor tells whether a device belongs to a request. An empty request stands for all.
func (d *device) isFor(request string) bool {
	return request == "" || len(d.Requests) == 0 || slices.Contains(d.Requests, request)
}
