// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package downward tells containers about their pod: Kubernetes' downward API.
package downward

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Field returns the value of a field of a pod that a variable refers to with fieldRef. An error says that there
// is no such field, or that variables cannot have it.
func Field(pod *corev1.Pod, path string) (string, error) {
	for prefix, of := range map[string]map[string]string{"metadata.labels['": pod.Labels, "metadata.annotations['": pod.Annotations} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			if key, ok := strings.CutSuffix(rest, "']"); ok {
				return of[key], nil
			}
		}
	}
	joined := func(addresses []string, first string) string {
		if len(addresses) == 0 {
			return first
		}
		return strings.Join(addresses, ",")
	}
	var podIPs, hostIPs []string
	for _, ip := range pod.Status.PodIPs {
		podIPs = append(podIPs, ip.IP)
	}
	for _, ip := range pod.Status.HostIPs {
		hostIPs = append(hostIPs, ip.IP)
	}
	value, ok := map[string]string{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID),
		"spec.nodeName": pod.Spec.NodeName, "spec.serviceAccountName": pod.Spec.ServiceAccountName,
		"status.podIP": pod.Status.PodIP, "status.podIPs": joined(podIPs, pod.Status.PodIP),
		"status.hostIP": pod.Status.HostIP, "status.hostIPs": joined(hostIPs, pod.Status.HostIP),
	}[path]
	if !ok {
		return "", fmt.Errorf("fieldRef %q: not a field that variables can have", path)
	}
	return value, nil
}
