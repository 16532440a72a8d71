// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// claimCase is a pod whose containers run "env" and end, with its claims.
type claimCase struct {
	objects string
	// want are the devices that each container has. Names of containers are those of the pod "pod".
	want map[string][]string
}

const gpuClaim = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
`

var claimCases = map[string]claimCase{
	"two devices of one request": {`
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
`, map[string][]string{"main": {"GPU_gpu-0", "GPU_gpu-1"}, "other": nil}},
	"requests of containers": {`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: three}
spec:
  devices:
    requests:
    - {name: a, exactly: {deviceClassName: gpu}}
    - {name: b, firstAvailable: [{name: many, deviceClassName: gpu, count: 9}, {name: few, deviceClassName: gpu, count: 2}]}
    - {name: nic, exactly: {deviceClassName: nic}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  restartPolicy: Never
  resourceClaims: [{name: x, resourceClaimName: three}]
  initContainers:
  - {name: init, command: [env], resources: {claims: [{name: x, request: nic}]}}
  - {name: side, restartPolicy: Always, command: [sh, -c, "trap exit TERM; tr '\\0' '\\n' < /proc/1/environ; sleep inf & wait"], resources: {claims: [{name: x, request: a}]}}
  containers:
  - {name: main, command: [env], resources: {claims: [{name: x, request: b}]}}
  - {name: both, command: [env], resources: {claims: [{name: x, request: a}, {name: x, request: nic}]}}
  - {name: whole, command: [env], resources: {claims: [{name: x}]}}
`, map[string][]string{
		"init": {"NIC_nic-0"}, "side": {"GPU_gpu-0"}, "main": {"GPU_gpu-1", "GPU_gpu-2"}, "both": {"GPU_gpu-0", "NIC_nic-0"},
		"whole": {"GPU_gpu-0", "GPU_gpu-1", "GPU_gpu-2", "NIC_nic-0"},
	}},
	"two shares of one device": {`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shares}
spec:
  devices:
    requests:
    - {name: a, exactly: {deviceClassName: nic, selectors: [{cel: {expression: 'device.attributes["nic.example.com"].speed == 400'}}]}}
    - {name: b, exactly: {deviceClassName: nic, capacity: {requests: {shares: "2"}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  restartPolicy: Never
  resourceClaims: [{name: x, resourceClaimName: shares}]
  containers:
  - {name: main, command: [env], resources: {claims: [{name: x}]}}
  - {name: other, command: [env], resources: {claims: [{name: x, request: b}]}}
`, map[string][]string{"main": {"NIC_nic-0"}, "other": {"NIC_nic-0"}}},
	"all devices": {`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: all}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, allocationMode: All}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  restartPolicy: Never
  resourceClaims: [{name: gpus, resourceClaimTemplateName: all}]
  containers:
  - {name: main, command: [env], resources: {claims: [{name: gpus}]}}
`, map[string][]string{"main": {"GPU_gpu-0", "GPU_gpu-1", "GPU_gpu-2", "GPU_gpu-3"}}},
	"an extended resource of a class": {`
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  restartPolicy: Never
  initContainers:
  - {name: init, command: [env], resources: {limits: {example.com/accelerator: 1}}}
  containers:
  - {name: main, command: [env], resources: {limits: {example.com/accelerator: 2}}}
`, map[string][]string{"init": {"GPU_gpu-0", "GPU_gpu-1"}, "main": {"GPU_gpu-0", "GPU_gpu-1"}}}, // a request is given as a whole
	"a resource of the plugin": {`
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  restartPolicy: Never
  initContainers:
  - {name: init, command: [env], resources: {limits: {gpu.example.com/gpu: 4}}}
  containers:
  - {name: main, command: [env], resources: {limits: {gpu.example.com/gpu: 4}}}
`, map[string][]string{"init": {"GPU_gpu-0", "GPU_gpu-1", "GPU_gpu-2", "GPU_gpu-3"}, "main": {"GPU_gpu-0", "GPU_gpu-1", "GPU_gpu-2", "GPU_gpu-3"}}},
	"both fronts": {gpuClaim + `---
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  restartPolicy: Never
  resourceClaims: [{name: x, resourceClaimName: one}]
  containers:
  - {name: main, command: [env], resources: {limits: {gpu.example.com/gpu: 3}}}
  - {name: other, command: [env], resources: {claims: [{name: x}]}}
`, map[string][]string{"main": {"GPU_gpu-1", "GPU_gpu-2", "GPU_gpu-3"}, "other": {"GPU_gpu-0"}}},
}

// TestClaims has containers get what their claims were allocated, and nothing be left when their pods are gone.
func TestClaims(t *testing.T) {
	for name, test := range claimCases {
		t.Run(name, func(t *testing.T) {
			s := newSpace(t)
			s.create(test.objects)
			s.await("pod", corev1.PodSucceeded)
			for container, want := range test.want {
				s.mustHave("pod", container, want...)
			}
			s.delete("pod")
			s.mustLeaveNothing()
		})
	}
}
