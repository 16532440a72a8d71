// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletplugin

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// The directories that kubelet and container runtimes read unless they are configured
// otherwise.
const (
	KubeletPluginsDir  = upstream.KubeletPluginsDir
	KubeletRegistryDir = upstream.KubeletRegistryDir
	DefaultCDIDir      = upstream.DefaultCDIDir
)

// ErrRecoverable is found in each error given to HandleError after which the driver may go on.
// It is upstream's, for errors.Is.
var ErrRecoverable = upstream.ErrRecoverable

// Upstream's types. Values of both packages can be mixed.
type (
	// Device is a device of a claim that was prepared.
	Device = upstream.Device
	// DeviceMetadata is what a workload is told about a device: see EnableDeviceMetadata.
	DeviceMetadata = upstream.DeviceMetadata
	// NamespacedObject is a claim that may be gone.
	NamespacedObject = upstream.NamespacedObject
	// PrepareResult is what became of preparing one claim.
	PrepareResult = upstream.PrepareResult
)

// DRAPlugin is what a driver implements. The first three methods are required. A driver that
// reports health implements HealthWatcher as well; upstream's DRAPlugin requires it.
type DRAPlugin interface {
	// PrepareResourceClaims makes the devices of claims usable on the node. It is called
	// with all claims of one pod that have devices of this driver, allocated, and possibly
	// again for the same claims. The result has one entry for each claim, by its UID.
	PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (result map[types.UID]PrepareResult, err error)

	// UnprepareResourceClaims undoes what PrepareResourceClaims did, perhaps in another
	// process. Claims that are not prepared are no error. The result has one entry for each
	// claim, nil where it is no longer prepared.
	UnprepareResourceClaims(ctx context.Context, claims []NamespacedObject) (result map[types.UID]error, err error)

	// HandleError is told what goes wrong in the background. A driver ends after an error
	// that is not ErrRecoverable. Errors of publishing always are; among them is
	// *resourceslice.DroppedFieldsError.
	HandleError(ctx context.Context, err error, msg string)
}
