// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin_test

import (
	"flag"
	"testing"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/deviceplugin"
)

// The signatures of Intel's package. This file compiles against both.
var (
	_ func(string, deviceplugin.Scanner) *deviceplugin.Manager = deviceplugin.NewManager
	_ func(*deviceplugin.Manager)                              = (*deviceplugin.Manager).Run

	_ func(string, []pluginapi.DeviceSpec, []pluginapi.Mount, map[string]string, map[string]string, *cdispec.Spec) deviceplugin.DeviceInfo = deviceplugin.NewDeviceInfo

	_ func(string, []pluginapi.DeviceSpec, []pluginapi.Mount, map[string]string, map[string]string, *pluginapi.TopologyInfo, *cdispec.Spec) deviceplugin.DeviceInfo = deviceplugin.NewDeviceInfoWithTopologyHints

	_ func() deviceplugin.DeviceTree                                         = deviceplugin.NewDeviceTree
	_ func(deviceplugin.DeviceTree, string, string, deviceplugin.DeviceInfo) = deviceplugin.DeviceTree.AddDevice
	_ func(deviceplugin.DeviceTree, string) int                              = deviceplugin.DeviceTree.DeviceTypeCount
	_ map[string]map[string]deviceplugin.DeviceInfo                          = deviceplugin.DeviceTree{}
	_ error                                                                  = &deviceplugin.UseDefaultMethodError{}
	_ interface {
		Scan(deviceplugin.Notifier) error
	} = deviceplugin.Scanner(nil)
	_ interface{ Notify(deviceplugin.DeviceTree) } = deviceplugin.Notifier(nil)
	_ interface {
		PostAllocate(*pluginapi.AllocateResponse) error
	} = deviceplugin.PostAllocator(nil)
	_ interface {
		PreStartContainer(*pluginapi.PreStartContainerRequest) error
	} = deviceplugin.ContainerPreStarter(nil)
	_ interface {
		Allocate(*pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error)
	} = deviceplugin.Allocator(nil)
	_ interface {
		GetPreferredAllocation(*pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error)
	} = deviceplugin.PreferredAllocator(nil)
)

// Constants are part of file formats and of names in clusters.
func TestConstants(t *testing.T) {
	if deviceplugin.CDIVersion != "0.5.0" || deviceplugin.CDIDir != "/var/run/cdi" || deviceplugin.CDIVendor != "intel.cdi.k8s.io" {
		t.Error("a constant has another value than in Intel's package")
	}
}

// Drivers parse klog's flags and leave their registration to the package.
func TestFlagsOfTheLogAreRegistered(t *testing.T) {
	for _, name := range []string{"v", "logtostderr", "vmodule"} {
		if flag.Lookup(name) == nil {
			t.Errorf("flag -%s is not there", name)
		}
	}
}
