// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The requests of a pod as a whole are what its containers request, or else its limits. Only CPU, memory and huge pages
// can be requested for a pod as a whole.
func TestPodLevelRequests(t *testing.T) {
	for resources, want := range map[string]string{
		"":                                    "",
		"resources: {limits: {cpu: 4}}, ":     "cpu 4",
		"resources: {requests: {cpu: 3}}, ":   "cpu 3",
		"resources: {limits: {memory: 8}}, ":  "memory 8",
		"resources: {limits: {cpu: 4}}, main": "cpu 1",
		"resources: {limits: {memory: 8}, requests: {memory: 5}}, main":           "cpu 1 memory 5",
		"resources: {limits: {hugepages-2Mi: 2Mi, example.com/gpu: 1, cpu: 2}}, ": "cpu 2 hugepages-2Mi 2Mi",
	} {
		spec, found := strings.CutSuffix(resources, "main")
		container := "{name: main, image: i}"
		if found {
			container = "{name: main, image: i, resources: {limits: {cpu: 1, example.com/gpu: 1}}}"
		}
		manifest := "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {" + spec + "containers: [" + container + "]}}"
		objects, err := Read([]string{Stdin}, strings.NewReader(manifest), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if of := objects.Pods[0].Spec.Resources; of != nil {
			for _, name := range []corev1.ResourceName{"cpu", "memory", "hugepages-2Mi", "example.com/gpu"} {
				if quantity, found := of.Requests[name]; found {
					got = append(got, string(name)+" "+quantity.String())
				}
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: requests %q, want %q", manifest, got, want)
		}
	}
}

// A node that says only what it has offers all of that.
func TestNodeAllocatable(t *testing.T) {
	for status, want := range map[string]string{
		"{capacity: {cpu: 4}}":                         "4",
		"{capacity: {cpu: 4}, allocatable: {cpu: 3}}":  "3",
		"{capacity: {cpu: 4}, allocatable: {pods: 3}}": "0",
		"{}": "0",
	} {
		objects, err := Read([]string{Stdin}, strings.NewReader("{apiVersion: v1, kind: Node, metadata: {name: node}, status: "+status+"}"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := objects.Nodes[0].Status.Allocatable.Cpu().String(); got != want {
			t.Errorf("%s: %s CPUs, want %s", status, got, want)
		}
	}
}
