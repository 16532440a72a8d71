// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"strings"
	"testing"
)

// A manifest and what a cluster has of it are one object, in whichever order they are read. If they contradict each
// other, that is an error.
func TestManifestsThatWereApplied(t *testing.T) {
	const template = `
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaimTemplate
metadata: {name: t}
spec: {spec: {devices: {requests: [{name: r, deviceClassName: c}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {replicas: 2, template: {spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 1}}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {a: b}}
spec: {tolerations: [{key: gpu, operator: Exists}], containers: [{name: c, image: i, resources: {limits: {cpu: 1000m}}}]}
`
	const stored = `
apiVersion: v1
kind: List
items:
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaimTemplate
  metadata: {name: t, namespace: default, uid: u1, resourceVersion: "1", creationTimestamp: "2026-01-02T03:04:05Z"}
  spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, allocationMode: ExactCount, count: 1}}]}}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: d, namespace: default, uid: u2, resourceVersion: "1", generation: 1}
  spec: {replicas: 2, paused: false, template: {spec: {restartPolicy: Always, containers: [{name: c, image: i, resources: {limits: {cpu: 1}}}]}}}
  status: {replicas: 2}
- apiVersion: v1
  kind: Pod
  metadata: {name: p, namespace: default, labels: {a: b, c: d}, uid: u3, resourceVersion: "1"}
  spec: {nodeName: node, priority: 0, tolerations: [{key: gpu, operator: Exists}, {key: node.kubernetes.io/not-ready, operator: Exists}], containers: [{name: c, image: i, resources: {limits: {cpu: "1"}, requests: {cpu: "1"}}}]}
  status: {phase: Running}
`
	for name, text := range map[string]string{"manifests first": template + "---" + stored, "cluster first": stored + "---" + template} {
		objects, err := Read([]string{Stdin}, strings.NewReader(text), Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(objects.Templates) != 1 || len(objects.Controllers) != 1 || len(objects.Pods) != 1 {
			t.Fatalf("%s: %d templates, %d controllers, %d pods", name, len(objects.Templates), len(objects.Controllers), len(objects.Pods))
		}
		if objects.Templates[0].UID != "u1" || objects.Controllers[0].Object.GetUID() != "u2" || objects.Pods[0].Spec.NodeName != "node" {
			t.Errorf("%s: not what the cluster has", name)
		}
	}
	for from, to := range map[string]string{"deviceClassName: c}": "deviceClassName: c, count: 2}", "replicas: 2": "replicas: 3", "key: gpu": "key: tpu", "labels: {a: b}": "labels: {a: c}"} {
		other := strings.Replace(template, from, to, 1)
		if _, err := Read([]string{Stdin}, strings.NewReader(stored+"---"+other), Options{}); err == nil || !strings.Contains(err.Error(), "another object of that name was already read") {
			t.Errorf("%s: got %v", to, err)
		}
	}
	if _, err := Read([]string{Stdin}, strings.NewReader(template+"---"+strings.Replace(template, "replicas: 2, ", "", 1)), Options{}); err == nil {
		t.Error("two manifests that differ: no error")
	}
}
