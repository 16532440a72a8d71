// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dray-project/dray/cmd/dray/internal/input"
)

// Groups refused for other reasons than devices come after those refused for devices. Groups with most nodes
// come first, nodes without any device last.
func TestOrderOfGroups(t *testing.T) {
	several := 0
	forEachExample(t, func(t *testing.T, objects *input.Objects) {
		c := newCluster(t, objects)
		placements, err := c.Run(context.Background(), c.Workloads(), c.Nodes, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range placements {
			groups := GroupRefusals(p.Refusals)
			for i := 1; i < len(groups); i++ {
				several++
				before, after := groups[i-1], groups[i]
				switch {
				case rankOf(before) > rankOf(after):
					t.Errorf("%s: %q comes before %q", p.Workload, before.Summary, after.Summary)
				case rankOf(before) == otherReasons && rankOf(after) == otherReasons && len(before.Nodes) < len(after.Nodes):
					t.Errorf("%s: %q is about fewer nodes than %q", p.Workload, before.Summary, after.Summary)
				}
			}
		}
	})
	if several == 0 {
		t.Error("no workload has several groups of refusals")
	}
}

// Objects that no API server has checked are said to be wrong, and do not fit.
func TestWrongObjectsAreReasons(t *testing.T) {
	claim := &resourceapi.ResourceClaim{}
	claim.Name = "wrong"
	claim.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "not a label!", Operator: corev1.NodeSelectorOpExists}},
	}}}}
	if why := unfitClaims([]*resourceapi.ResourceClaim{claim}, &corev1.Node{}); !strings.HasPrefix(why, "claim wrong: status.allocation.nodeSelector: ") {
		t.Errorf("the reason is %q", why)
	}
	none := &Cluster{objects: &input.Objects{}}
	if hint := none.classHint("gpu"); hint != "there is no DeviceClass at all" {
		t.Errorf("the hint is %q", hint)
	}
	one := &Cluster{objects: &input.Objects{Classes: []*resourceapi.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "network-card"}}}}}
	if hint := one.classHint("gpu"); hint != "there is network-card" {
		t.Errorf("the hint is %q", hint)
	}
}

// Three devices of a claim are named, and the others counted.
func TestSomeDevices(t *testing.T) {
	for count, want := range []string{"", "p/0", "p/0, p/1", "p/0, p/1, p/2", "p/0, p/1, p/2 and 1 other device", "p/0, p/1, p/2 and 2 other devices"} {
		claim := &resourceapi.ResourceClaim{Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}}}
		for i := range count {
			results := &claim.Status.Allocation.Devices.Results
			*results = append(*results, resourceapi.DeviceRequestAllocationResult{Pool: "p", Device: strconv.Itoa(i)})
		}
		if got := someDevices(claim); got != want {
			t.Errorf("%d devices: %q, want %q", count, got, want)
		}
	}
}

func rankOf(g RefusalGroup) int {
	if g.Explanation == nil {
		return otherReasons
	}
	return rank(g.Explanation)
}
