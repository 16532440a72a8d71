// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"strings"
	"testing"
)

// A new node is not cordoned as the node is that it is like. It has a static pod and a daemon, and pods get what these leave.
func TestPlanLikeNodeInAState(t *testing.T) {
	input := `{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}
---
apiVersion: v1
kind: Node
metadata: {name: a}
spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}
status: {allocatable: {cpu: 5, pods: 10}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec: {driver: gpu.example.com, nodeName: a, pool: {name: a, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0}, {name: gpu-1}, {name: gpu-2}, {name: gpu-3}]}
---
apiVersion: v1
kind: Pod
metadata: {name: proxy-a, namespace: default, annotations: {kubernetes.io/config.mirror: x}}
spec: {nodeName: a, containers: [{name: main, image: x, resources: {requests: {cpu: 2}}}]}
status: {phase: Running}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: default}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: %d}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: daemon, namespace: default, uid: u, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: d, controller: true}]}
spec: {nodeName: a, containers: [{name: main, image: x}], resourceClaims: [{name: c, resourceClaimTemplateName: one}]}
status: {phase: Running}
`
	for i := range 6 {
		input += fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: wants-%d, namespace: default}, spec: {containers: [{name: main, image: x, resources: {requests: {cpu: 1}}}], resourceClaims: [{name: c, resourceClaimTemplateName: one}]}}\n", i)
	}
	for gpus, want := range map[int]string{
		1: "a     2      6       0", // three of four GPUs, and three of five CPUs
		2: "a     6      6       0", // of two pairs of GPUs, the daemon has one
	} {
		if out := run(fmt.Sprintf(input, gpus), "dray", "simulate", "plan", "--like", "a", "-f", "-"); !strings.Contains(out, want) {
			t.Errorf("pods with %d GPUs: no %q in\n%s", gpus, want, out)
		}
	}
}
