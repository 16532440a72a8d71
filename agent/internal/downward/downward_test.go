// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package downward

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestField has each field that a variable can have. A label that a pod has not is empty, as kubelet's is.
func TestField(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Namespace: "ns", UID: "uid",
			Labels: map[string]string{"app": "l"}, Annotations: map[string]string{"app": "n", "example.com/rank": "3"},
		},
		Spec: corev1.PodSpec{NodeName: "node-1", ServiceAccountName: "account"},
		Status: corev1.PodStatus{
			PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
			HostIP: "192.0.2.1", HostIPs: []corev1.HostIP{{IP: "192.0.2.1"}, {IP: "2001:db8::1"}},
		},
	}
	for path, want := range map[string]string{
		"metadata.name": "a", "metadata.namespace": "ns", "metadata.uid": "uid",
		"metadata.labels['app']": "l", "metadata.labels['none']": "", "metadata.annotations['app']": "n", "metadata.annotations['example.com/rank']": "3",
		"spec.nodeName": "node-1", "spec.serviceAccountName": "account",
		"status.podIP": "10.0.0.1", "status.podIPs": "10.0.0.1,fd00::1", "status.hostIP": "192.0.2.1", "status.hostIPs": "192.0.2.1,2001:db8::1",
	} {
		if got, err := Field(pod, path); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	// An older node tells one address only.
	pod.Status.PodIPs, pod.Status.HostIPs = nil, nil
	for path, want := range map[string]string{"status.podIPs": "10.0.0.1", "status.hostIPs": "192.0.2.1"} {
		if got, err := Field(pod, path); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"", "spec.priority", "metadata.labels", "metadata.labels[app]", "metadata.labels['app'", "metadata.annotations"} {
		if got, err := Field(pod, path); got != "" || err == nil || err.Error() != `fieldRef "`+path+`": not a field that variables can have` {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}
