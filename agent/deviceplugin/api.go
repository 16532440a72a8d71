// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// The constants have the values of Intel's package, so that the CDI devices of
// a driver that uses them keep their names.
const (
	// CDIVersion is the version of a CDI spec that any runtime with support for
	// CDI devices of device plugins understands (KEP-4009).
	CDIVersion = "0.5.0"
	// CDIDir is where CDI files are written unless Options say otherwise.
	CDIDir = "/var/run/cdi"
	// CDIVendor is a vendor for the kind of a CDI spec.
	CDIVendor = "intel.cdi.k8s.io"
)

// Drivers that were written for Intel's package parse -v and the other flags of
// klog without registering them, because that package does.
func init() { klog.InitFlags(nil) }

// Scanner finds devices. It may also implement Allocator, PostAllocator,
// PreferredAllocator and ContainerPreStarter. Their methods are called
// concurrently with Scan and with each other.
type Scanner interface {
	// Scan calls Notify with all devices once it knows them, then again after
	// each change. The Manager calls it once, in a goroutine. It is expected
	// not to return. An error, or a panic, ends the Manager's Run with that
	// error; nil ends it without one.
	Scan(Notifier) error
}

// Notifier receives the devices that a Scanner found.
type Notifier interface {
	// Notify publishes the tree to kubelet. It compares the tree with the previous one, and applies
	// the difference: types that were added, updated or removed. It copies what it needs, so that
	// the Scanner may modify the tree afterwards. It does not wait until kubelet reads an update:
	// kubelet gets the latest state when it is ready. Only the removal of a type waits until
	// kubelet has closed its connection, for at most two seconds. Notify may be called
	// concurrently.
	Notify(DeviceTree)
}

// Allocator replaces the Manager's Allocate.
type Allocator interface {
	// Allocate answers kubelet in place of the Manager. PostAllocate is not called then. If it
	// returns a *UseDefaultMethodError the Manager answers as if there were no Allocator.
	Allocate(*pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error)
}

// PostAllocator changes the answers that the Manager makes.
type PostAllocator interface {
	// PostAllocate may modify the response. If it returns an error, kubelet gets that.
	PostAllocate(*pluginapi.AllocateResponse) error
}

// PreferredAllocator tells kubelet which devices to take.
type PreferredAllocator interface {
	// GetPreferredAllocation chooses, for each container, among the devices
	// that are available. Kubelet need not follow it.
	GetPreferredAllocation(*pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error)
}

// ContainerPreStarter prepares devices for a container.
type ContainerPreStarter interface {
	// PreStartContainer is called before each start of a container, for example
	// to reset devices. An error keeps the container from starting.
	PreStartContainer(*pluginapi.PreStartContainerRequest) error
}

// UseDefaultMethodError is what an Allocator returns, by pointer, to leave a
// request to the Manager.
type UseDefaultMethodError struct{}

// Error says what the Allocator asks for.
func (e *UseDefaultMethodError) Error() string { return "answer by the default method" }
