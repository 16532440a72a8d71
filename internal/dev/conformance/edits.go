// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

// integrationEdits have the integration tests expect what Dray says where they compare texts.
var integrationEdits = map[string][]edit{
	"test/integration/dra/compatibility_groups.go": {
		{
			`expectPodUnschedulable(tCtx, createdPod, "cannot allocate all claims")`,
			`expectPodUnschedulable(tCtx, createdPod, words(tCtx, "cannot allocate all claims", "not that many can be had together"))`,
		},
		{
			`expectPodUnschedulable(tCtx, createdPod2, "cannot allocate all claims")`,
			`expectPodUnschedulable(tCtx, createdPod2, words(tCtx, "cannot allocate all claims", "not that many can be had together"))`,
		},
	},
	"test/integration/dra/core.go": {
		{
			`gomega.Equal("0/8 nodes are available: 1 invalid resource pools were encountered, 7 cannot allocate all claims. preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling.")`,
			`message("0/8 nodes are available: 1 invalid resource pools were encountered, 7 cannot allocate all claims. preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling.", "it has invalid pools")`,
		},
		{
			`gomega.Equal("0/8 nodes are available: 8 invalid resource pools were encountered. preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling.")`,
			`message("0/8 nodes are available: 8 invalid resource pools were encountered. preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling.", "it has invalid pools")`,
		},
		{
			`for _, slice := range tc.slices {`,
			`if !tc.expectPodToSchedule {
				words(tCtx, "invalid resource pools were encountered", "it has invalid pools")
			}
			for _, slice := range tc.slices {`,
		},
	},
	"test/integration/dra/device_taints.go": {
		{`"cannot allocate all claims"`, `words(tCtx, "cannot allocate all claims", "tainted")`},
	},
	"test/integration/dra/pod_group.go": {
		{
			`"1 resourceclaim not available on the node"`,
			`words(tCtx, "1 resourceclaim not available on the node", "is allocated on other nodes")`,
		},
	},
	"test/integration/dra/prioritizedlist.go": {
		{
			`gomega.Equal("0/8 nodes are available: 8 cannot allocate all claims. preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling.")`,
			`message("0/8 nodes are available: 8 cannot allocate all claims. preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling.",
				words(tCtx, "cannot allocate all claims", "request req-1/subreq-1 wants 1 device: "))`,
		},
	},
}
