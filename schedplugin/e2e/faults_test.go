// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"regexp"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/internal/dev/faults"
	"github.com/dray-project/dray/schedplugin/internal/dev/inventory"
)

// proxy is between the scheduler and the API server.
var proxy *faults.Proxy

// throughProxy starts the proxy when the scheduler starts for the first time.
func throughProxy(plane *controlplane.ControlPlane) (string, error) {
	if proxy != nil {
		return proxy.URL(), nil
	}
	target, err := plane.ConfigFor(controlplane.SchedulerUser)
	if err != nil {
		return "", err
	}
	serving, err := plane.ServingCertificate()
	if err != nil {
		return "", err
	}
	if proxy, err = faults.Start(target, serving); err != nil {
		return "", err
	}
	return proxy.URL(), nil
}

// lost stands for a request that is served, and an answer that does not arrive.
const lost = 0

var (
	toClaims = faults.Fault{Methods: []string{http.MethodPut, http.MethodPatch}, Path: regexp.MustCompile(`/resourceclaims/`)}
	// toFinalizers is the first request for a claim that is to be allocated, toStatus the
	// second, and the only one for a claim that is allocated already.
	toFinalizers = faults.Fault{Methods: []string{http.MethodPut}, Path: regexp.MustCompile(`/resourceclaims/[^/]+$`)}
	toStatus     = faults.Fault{Methods: []string{http.MethodPut}, Path: regexp.MustCompile(`/resourceclaims/[^/]+/status$`)}
	toBindings   = faults.Fault{Methods: []string{http.MethodPost}, Path: regexp.MustCompile(`/binding$`)}
)

var _ = Describe("Failing requests of the scheduler", func() {
	DescribeTable("are repeated until all pods run", func(ctx SpecContext, fault faults.Fault, status int) {
		here.addNode(ctx, "a", inventory.GPUs(4, "a100", "80Gi")...)
		here.addNode(ctx, "b", inventory.GPUs(4, "a100", "80Gi")...)
		here.addTemplate(ctx, "gpus", here.gpus(1))
		here.addClaim(ctx, "shared", here.gpus(2))
		fault.Status, fault.Times = status, 4
		proxy.Inject(fault)
		pods := here.addPods(ctx, "own", 4, withTemplate("gpus"))
		pods = append(pods, here.addPods(ctx, "shared", 2, withClaim("shared"))...)
		here.expectRunning(ctx, pods...)
		Expect(proxy.Heal()).To(BeNumerically(">", 0), "no request met the fault")
	},
		Entry("conflicts when a claim is written", toClaims, http.StatusConflict),
		Entry("internal errors when a claim is written", toClaims, http.StatusInternalServerError),
		Entry("timeouts when a claim is written", toClaims, http.StatusGatewayTimeout),
		Entry("claims written without an answer", toClaims, lost),
		Entry("conflicts when a pod is bound", toBindings, http.StatusConflict),
		Entry("internal errors when a pod is bound", toBindings, http.StatusInternalServerError),
		Entry("pods bound without an answer", toBindings, lost),
	)
})
