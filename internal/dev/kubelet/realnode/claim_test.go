// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestClaim has a container get what its claim was allocated.
func TestClaim(t *testing.T) {
	s := newSpace(t)
	s.create(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: two}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 2}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  restartPolicy: Never
  resourceClaims: [{name: gpus, resourceClaimName: two}]
  containers:
  - {name: main, command: [env], resources: {claims: [{name: gpus}]}}
  - {name: other, command: [env]}
`)
	s.await("pod", corev1.PodSucceeded)
	s.mustHave("pod", "main", "GPU_gpu-0", "GPU_gpu-1")
	s.mustHave("pod", "other")
}
