// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package devicetree_test

import (
	"errors"
	"slices"
	"testing"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/dray-project/dray/agent/deviceplugin"
	"github.com/dray-project/dray/agent/devicetree"
)

// TestPreferred: schedulers give claims the first device that fits, and the plugin gives away the last.
func TestPreferred(t *testing.T) {
	scanner := devicetree.NewScanner(t.Context(), driver, openLedger(t, t.TempDir()))
	prefers := func(size int, must []string, available ...string) []string {
		t.Helper()
		answer, err := scanner.GetPreferredAllocation(&pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
			{AvailableDeviceIDs: available, MustIncludeDeviceIDs: must, AllocationSize: int32(size)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return answer.ContainerResponses[0].DeviceIDs
	}
	if _, err := scanner.GetPreferredAllocation(&pluginapi.PreferredAllocationRequest{}); err == nil {
		t.Error("devices are preferred before there are any")
	}
	scanner.Update(gpus(gpu("gpu-9", 1), gpu("gpu-10", 1), gpu("gpu-1", 2), gpu("gpu-2", 2), gpu("gpu-3", 1)))
	all := []string{"gpu-10", "gpu-3", "gpu-1::1", "gpu-9", "gpu-1::0", "gpu-2::1", "gpu-2::0"}
	for _, test := range []struct {
		size int
		must []string
		want []string
	}{
		{size: 1, want: []string{"gpu-3"}},
		{size: 4, want: []string{"gpu-3", "gpu-2::0", "gpu-2::1", "gpu-1::0"}},
		{size: 2, must: []string{"gpu-9"}, want: []string{"gpu-9", "gpu-3"}},
		{size: 1, must: []string{"gpu-9"}, want: []string{"gpu-9"}},
		{size: 9, want: []string{"gpu-3", "gpu-2::0", "gpu-2::1", "gpu-1::0", "gpu-1::1", "gpu-10", "gpu-9"}},
	} {
		if got := prefers(test.size, test.must, all...); !slices.Equal(got, test.want) {
			t.Errorf("of %d, with %q, kubelet should take %q, want %q", test.size, test.must, got, test.want)
		}
	}
	if _, err := scanner.Allocate(&pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{"gpu-1::1"}}}}); !useDefault(err) {
		t.Fatal(err)
	}
	if got, want := prefers(2, nil, "gpu-3", "gpu-1::0", "gpu-2::0"), []string{"gpu-1::0", "gpu-3"}; !slices.Equal(got, want) {
		t.Errorf("a device has a share in use: kubelet should take %q, want %q", got, want)
	}
}

// useDefault tells whether an allocation is left to the Manager.
func useDefault(err error) bool {
	var left *deviceplugin.UseDefaultMethodError
	return errors.As(err, &left)
}
