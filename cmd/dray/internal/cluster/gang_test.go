// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A group whose pods need neither a number nor something in common is not one that starts together.
func TestGangs(t *testing.T) {
	const group = "---\n{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: %s, namespace: a}, spec: {schedulingPolicy: {%s}%s}}\n"
	manifests := manyNodes + fmt.Sprintf(group, "basic", "basic: {}", "") + fmt.Sprintf(group, "gang", "gang: {minCount: 1}", "") +
		fmt.Sprintf(group, "rack", "basic: {}", ", schedulingConstraints: {topology: [{key: rack}]}")
	for _, name := range []string{"basic", "gang", "rack", "none"} {
		manifests += asking("pod-of-"+name, "", "schedulingGroup: {podGroupName: "+name+"},", "cpu: 1", "resourceClaimTemplateName: one")
	}
	var got []string
	for _, gang := range read(t, manifests).Gangs() {
		got = append(got, gang.Key.Name)
	}
	if diff := cmp.Diff([]string{"gang", "rack"}, got); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}
