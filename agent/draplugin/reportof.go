// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package draplugin

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourceapply "k8s.io/client-go/applyconfigurations/resource/v1"

	"github.com/dray-project/dray/agent/inventory"
)

// ReportOf returns what a driver writes into status.devices of a claim that it has prepared, or
// failed to. It is for programs that simulate drivers. before has the entries that the driver wrote
// last, or is nil. Unchanged conditions keep the time of their transition.
func ReportOf(driver string, claim *resourceapi.ResourceClaim, in *inventory.Inventory, failure error, before []resourceapi.AllocatedDeviceStatus) []resourceapi.AllocatedDeviceStatus {
	d := &Driver{options: Options{DriverName: driver}}
	return d.wanted(observed{results: d.resultsOf(claim), failure: failure, in: in}, before, metav1.Now().Rfc3339Copy())
}

// Reported returns the entries that a driver wrote into the status of a claim.
func Reported(driver string, claim *resourceapi.ResourceClaim) []resourceapi.AllocatedDeviceStatus {
	return (&Driver{options: Options{DriverName: driver}}).ours(claim)
}

// ApplyReport returns the apply configuration that sets a driver's entries. Without devices, it
// removes them. Apply it to the subresource status, with the driver's name as field manager.
func ApplyReport(claim *resourceapi.ResourceClaim, devices []resourceapi.AllocatedDeviceStatus) *resourceapply.ResourceClaimApplyConfiguration {
	status := resourceapply.ResourceClaimStatus()
	for i := range devices {
		status.WithDevices(entry(&devices[i]))
	}
	return resourceapply.ResourceClaim(claim.Name, claim.Namespace).WithUID(claim.UID).WithStatus(status)
}
