// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package draplugin

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourceapply "k8s.io/client-go/applyconfigurations/resource/v1"

	"github.com/dray-project/dray/agent/inventory"
)

// ReportOf is what a driver that has prepared a claim, or failed to, writes into its status.devices: for programs
// that stand for drivers. before is what it wrote last, or nil: conditions that are as before keep
// the time of their transition. The devices are those of the driver in the claim's allocation.
func ReportOf(driver string, claim *resourceapi.ResourceClaim, in *inventory.Inventory, failure error, before []resourceapi.AllocatedDeviceStatus) []resourceapi.AllocatedDeviceStatus {
	d := &Driver{options: Options{DriverName: driver}}
	return d.wanted(observed{results: d.resultsOf(claim), failure: failure, in: in}, before, metav1.Now().Rfc3339Copy())
}

// Reported is what a driver wrote into the status of a claim.
func Reported(driver string, claim *resourceapi.ResourceClaim) []resourceapi.AllocatedDeviceStatus {
	return (&Driver{options: Options{DriverName: driver}}).ours(claim)
}

// ApplyReport is the request by which a driver writes that. Without devices, it removes what the
// driver wrote. It is to be applied to the subresource status, with the driver's name as field manager.
func ApplyReport(claim *resourceapi.ResourceClaim, devices []resourceapi.AllocatedDeviceStatus) *resourceapply.ResourceClaimApplyConfiguration {
	status := resourceapply.ResourceClaimStatus()
	for i := range devices {
		status.WithDevices(entry(&devices[i]))
	}
	return resourceapply.ResourceClaim(claim.Name, claim.Namespace).WithUID(claim.UID).WithStatus(status)
}
