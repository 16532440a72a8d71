// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sharing is a pod that uses the claim "one" and runs until it is deleted.
const sharing = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: one}]
  containers:
  - {name: main, command: [sh, -c, "tr '\\0' '\\n' < /proc/1/environ; sleep inf"], resources: {claims: [{name: gpu}]}}
`

// TestSharedClaim has two pods share a claim, of which one ends, and a third with admin access to its device.
func TestSharedClaim(t *testing.T) {
	s := newSpace(t)
	s.create(gpuClaim)
	for _, name := range []string{"a", "b"} {
		s.mustGo(map[string]string{name: sharing})
	}
	s.delete("a")
	files := func() int {
		found, err := filepath.Glob(filepath.Join(node.Folder(), "cdi", driver+"_*"))
		must(t, err)
		return len(found)
	}
	if files() != 1 {
		t.Errorf("a pod uses the claim, and there are %d CDI files of claims", files())
	}
	label := []byte(`{"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}`)
	_, err := client.CoreV1().Namespaces().Patch(t.Context(), s.name, types.MergePatchType, label, metav1.PatchOptions{})
	must(t, err)
	s.create(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: admin}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, allocationMode: All, adminAccess: true}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: admin}
spec:
  restartPolicy: Never
  resourceClaims: [{name: gpu, resourceClaimName: admin}]
  containers:
  - {name: main, command: [env], resources: {claims: [{name: gpu}]}}
`)
	s.await("admin", corev1.PodSucceeded)
	s.mustHave("admin", "main", "GPU_gpu-0", "GPU_gpu-1", "GPU_gpu-2", "GPU_gpu-3")
	s.delete("admin")
	s.mustGo(map[string]string{"c": sharing})
	s.delete("b")
	s.delete("c")
	s.mustLeaveNothing()
}

// TestHealth has a device fail under a pod of each kind. Kubelet says so in the status of both.
func TestHealth(t *testing.T) {
	s := newSpace(t)
	devices := s.mustGo(map[string]string{"claimed": withClaim, "plugged": withDevice})
	path, failing := filepath.Join(node.Folder(), "hardware.yaml"), hardware+"script:\n"
	for _, device := range devices {
		failing += fmt.Sprintf("- {at: 0s, device: %s, fail: {reason: DoubleBitEccError, message: an error}}\n", device[len("GPU_"):])
	}
	must(t, os.WriteFile(path, []byte(failing), 0o600))
	defer func() { must(t, os.WriteFile(path, []byte(hardware), 0o600)) }()
	for name := range devices {
		until(t, "the status of "+name+" says that its device is unhealthy", func() bool {
			for _, resource := range s.pod(name).Status.ContainerStatuses[0].AllocatedResourcesStatus {
				for _, health := range resource.Resources {
					if health.Health == corev1.ResourceHealthStatusUnhealthy {
						return true
					}
				}
			}
			return false
		})
	}
	must(t, os.WriteFile(path, []byte(hardware), 0o600))
	for name := range devices {
		s.delete(name)
	}
	s.mustLeaveNothing()
}

// TestJob has pods of a Job take turns with the devices.
func TestJob(t *testing.T) {
	s := newSpace(t)
	s.create(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec:
  completions: 12
  parallelism: 6
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
      containers:
      - {name: main, command: [sh, -c, "tr '\\0' '\\n' < /proc/1/environ | grep ^GPU_gpu && sleep 1"], resources: {claims: [{name: gpu}]}}
`)
	began := time.Now()
	until(t, "the job is complete", func() bool {
		job, err := client.BatchV1().Jobs(s.name).Get(t.Context(), "job", metav1.GetOptions{})
		must(t, err)
		if job.Status.Failed > 0 {
			t.Fatalf("%d pods failed", job.Status.Failed)
		}
		return job.Status.Succeeded == 12
	})
	t.Logf("12 pods took %v", time.Since(began))
	s.mustLeaveNothing()
}
