// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletplugin

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// Default directories of kubelet and container runtimes.
const (
	KubeletPluginsDir  = upstream.KubeletPluginsDir
	KubeletRegistryDir = upstream.KubeletRegistryDir
	DefaultCDIDir      = upstream.DefaultCDIDir
)

// ErrRecoverable marks errors given to HandleError after which the driver may go on. It is
// upstream's value, so that errors.Is works.
var ErrRecoverable = upstream.ErrRecoverable

// Upstream's types. Values of both packages can be mixed.
type (
	// Device is a prepared device of a claim.
	Device = upstream.Device
	// DeviceMetadata is the metadata of a device for a workload: see EnableDeviceMetadata.
	DeviceMetadata = upstream.DeviceMetadata
	// NamespacedObject identifies a claim, which may have been deleted.
	NamespacedObject = upstream.NamespacedObject
	// PrepareResult is the result of preparing one claim.
	PrepareResult = upstream.PrepareResult
)

// DRAPlugin is the interface of a driver. A driver that reports health implements HealthWatcher as
// well; upstream's DRAPlugin requires it.
type DRAPlugin interface {
	// PrepareResourceClaims makes the devices of claims usable on the node. It is called
	// with all claims of one pod that have devices of this driver, allocated, and possibly
	// again for the same claims. The result has one entry for each claim, by its UID.
	PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (result map[types.UID]PrepareResult, err error)

	// UnprepareResourceClaims undoes PrepareResourceClaims, possibly of an earlier process. It is
	// no error if a claim is not prepared. The result has one entry for each claim, which is nil on
	// success.
	UnprepareResourceClaims(ctx context.Context, claims []NamespacedObject) (result map[types.UID]error, err error)

	// HandleError gets errors of background work. A driver should exit after an error that is not
	// ErrRecoverable. Errors of publishing are always recoverable; one of them is
	// *resourceslice.DroppedFieldsError.
	HandleError(ctx context.Context, err error, msg string)
}
