// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2" //nolint:revive // how specs are written
	. "github.com/onsi/gomega"    //nolint:revive // how specs are written
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/dray-project/dray/agent/draplugin"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/virtualnode"
)

// reporting is a driver that publishes its devices, and reports in the status of claims how
// they are.
type reporting struct {
	*draplugin.Driver
	name   string
	folder string
	ledger *inventory.Ledger
}

// newReporting runs a driver beside the one that the machine has.
func (m *machine) newReporting(ctx context.Context) *reporting {
	GinkgoHelper()
	ledger, err := inventory.OpenLedger(filepath.Join(m.folder, "reporting-ledger"))
	Expect(err).NotTo(HaveOccurred())
	for _, front := range inventory.Fronts {
		Expect(ledger.Rebuild(front, nil)).To(Succeed())
	}
	r := &reporting{name: "reporting." + m.driver, folder: filepath.Join(m.folder, "reporting"), ledger: ledger}
	m.addClass(ctx, r.name, "")
	r.start(m)
	m.real = r
	DeferCleanup(func(ctx SpecContext) { Expect(r.Withdraw(ctx)).To(Succeed()) })
	return r
}

// start starts the driver. An earlier one must have stopped.
func (r *reporting) start(m *machine) {
	GinkgoHelper()
	var err error
	r.Driver, err = draplugin.Start(context.Background(), draplugin.Options{
		DriverName: r.name, NodeName: m.node, KubeClient: client, Ledger: r.ledger,
		RegistrarDir: virtualnode.RegistrationDir(m.folder), PluginDataDir: r.folder, CDIDir: filepath.Join(m.folder, "cdi"),
		OnError: func(_ context.Context, err error, msg string) { m.violation("%s: %v", msg, err) },
	})
	Expect(err).NotTo(HaveOccurred())
}

// has reports one device.
func (r *reporting) has(m *machine, health inventory.Health) {
	r.Update(&inventory.Inventory{Devices: []inventory.Device{{
		ID: inventory.ID{Driver: r.name, Pool: m.node, Device: "gpu-0"}, Health: health,
		Data:    map[string]any{"firmware": "1.2", "banks": 4},
		Network: &resourceapi.NetworkDeviceData{InterfaceName: "eth1", HardwareAddress: "02:00:00:00:00:01", IPs: []string{"192.0.2.1/24"}},
	}}})
}

// deviceStatuses are the entries of status.devices: device, data, interface and conditions.
func (a *arena) deviceStatuses(ctx context.Context, claim string) ([]string, error) {
	stored, err := client.ResourceV1().ResourceClaims(a.namespace).Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, device := range stored.Status.Devices {
		line := device.Device
		if device.Data != nil {
			line += " " + string(device.Data.Raw)
		}
		if device.NetworkData != nil {
			line += fmt.Sprintf(" %s %v", device.NetworkData.InterfaceName, device.NetworkData.IPs)
		}
		for _, condition := range device.Conditions {
			line += fmt.Sprintf(" %s=%s/%s", condition.Type, condition.Status, condition.Reason)
		}
		out = append(out, line)
	}
	return out, nil
}

// changeClaim changes the status of a claim, whoever else writes it.
func (a *arena) changeClaim(ctx context.Context, name string, change func(*resourceapi.ResourceClaimStatus)) {
	GinkgoHelper()
	Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		claim := a.claim(ctx, name)
		change(&claim.Status)
		_, err := client.ResourceV1().ResourceClaims(a.namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		return err
	})).To(Succeed())
}

var _ = Describe("The status of a claim's devices", func() {
	const described = `gpu-0 {"banks":4,"firmware":"1.2"} eth1 [192.0.2.1/24] `

	It("says how they are from when they are prepared until they are not", func(ctx SpecContext) {
		m := newMachine(ctx, 1).run(ctx)
		driver := m.newReporting(ctx)
		driver.has(m, inventory.Health{})
		here.addClaim(ctx, "one", driver.name)
		here.addPod(ctx, "pod", withClaim("one"))
		here.expectPhase(ctx, "Running", "pod")
		Eventually(ctx, here.deviceStatuses).WithArguments("one").Should(Equal([]string{described + "Ready=True/Prepared Healthy=True/Healthy"}))
		// It keeps the claim allocated when the pod is gone: the API server removes entries of
		// claims that are not.
		here.changeClaim(ctx, "one", func(status *resourceapi.ResourceClaimStatus) {
			status.ReservedFor = append(status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "configmaps", Name: "keeper", UID: "keeper"})
		})

		driver.has(m, inventory.Health{Unhealthy: true, Reason: "EccErrors", Message: "two of them"})
		Eventually(ctx, here.deviceStatuses).WithArguments("one").Should(Equal([]string{described + "Ready=True/Prepared Healthy=False/EccErrors"}))
		driver.Stop()
		driver.start(m)
		driver.has(m, inventory.Health{})
		Eventually(ctx, here.deviceStatuses).WithArguments("one").Should(Equal([]string{described + "Ready=True/Prepared Healthy=True/Healthy"}))
		driver.SourceLost(errors.New("the cable is cut"))
		Eventually(ctx, here.deviceStatuses).WithArguments("one").Should(Equal([]string{described + "Ready=True/Prepared Healthy=Unknown/SourceLost"}))

		here.remove(ctx, "pod", 30)
		here.expectGone(ctx, "pod")
		Eventually(ctx, here.deviceStatuses).WithArguments("one").Should(BeEmpty())
		Expect(here.claim(ctx, "one").Status.Allocation).NotTo(BeNil())
		here.changeClaim(ctx, "one", func(status *resourceapi.ResourceClaimStatus) { *status = resourceapi.ResourceClaimStatus{} })
	})
})
