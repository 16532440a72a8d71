// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

var _ = Describe("Of nodes that have the devices", func() {
	// Other plugins prefer the node that has more CPUs left.
	burden := func(ctx context.Context, node string, cpus int64) {
		GinkgoHelper()
		here.addPod(ctx, "burden", withCPUs(cpus), onNode(node))
		here.expectRunning(ctx, "burden")
	}

	It("that with the earlier alternative is preferred", func(ctx SpecContext) {
		here.addNode(ctx, "a", inventory.GPUs(1, "a100", "80Gi")...)
		better := here.addNode(ctx, "b", inventory.GPUs(1, "h100", "80Gi")...)
		burden(ctx, better, 2)
		here.addClaim(ctx, "gpus", resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name:           "gpu",
			FirstAvailable: []resourceapi.DeviceSubRequest{here.alternative("best", "h100", 1), here.alternative("good", "a100", 1)},
		}}})
		here.addPod(ctx, "pod", withClaim("gpus"))
		here.expectRunning(ctx, "pod")
		Expect(here.nodeOf(ctx, "pod")).To(Equal(better))
	})

	if scheduler == controlplane.InTree {
		return
	}

	It("that with most devices in use is preferred for packing", func(ctx SpecContext) {
		used := here.addNode(ctx, "a", inventory.GPUs(4, "a100", "80Gi")...)
		here.addNode(ctx, "b", inventory.GPUs(4, "a100", "80Gi")...)
		withArguments(ctx, `{"scoring":{"packing":10}}`)
		burden(ctx, used, 2)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		here.addPod(ctx, "first", withTemplate("gpus"), onNode(used))
		here.expectRunning(ctx, "first")
		for _, name := range []string{"second", "third"} {
			here.addPod(ctx, name, withTemplate("gpus"))
			here.expectRunning(ctx, name)
			Expect(here.nodeOf(ctx, name)).To(Equal(used))
		}
	})

	It("that with fewest devices in use is preferred for spreading", func(ctx SpecContext) {
		used := here.addNode(ctx, "a", inventory.GPUs(4, "a100", "80Gi")...)
		free := here.addNode(ctx, "b", inventory.GPUs(4, "a100", "80Gi")...)
		withArguments(ctx, `{"scoring":{"spreading":10}}`)
		burden(ctx, free, 2)
		here.addTemplate(ctx, "three", here.gpus(3))
		here.addTemplate(ctx, "one", here.gpus(1))
		here.addPod(ctx, "first", withTemplate("three"), onNode(used))
		here.expectRunning(ctx, "first")
		here.addPod(ctx, "second", withTemplate("one"))
		here.expectRunning(ctx, "second")
		Expect(here.nodeOf(ctx, "second")).To(Equal(free))
	})
})
