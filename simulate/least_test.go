// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// A request takes its count, all is one device at least, and admin access takes none. Of alternatives, the one with the least counts.
func TestLeastDevices(t *testing.T) {
	exactly := func(mode resourceapi.DeviceAllocationMode, count int64, admin bool) resourceapi.DeviceRequest {
		return resourceapi.DeviceRequest{Exactly: &resourceapi.ExactDeviceRequest{AllocationMode: mode, Count: count, AdminAccess: ptr.To(admin)}}
	}
	const all, exact = resourceapi.DeviceAllocationModeAll, resourceapi.DeviceAllocationModeExactCount
	for _, test := range []struct {
		request resourceapi.DeviceRequest
		want    int64
	}{
		{exactly(exact, 3, false), 3},
		{exactly("", 0, false), 1},
		{exactly(exact, 3, true), 0},
		{exactly(all, 0, false), 1},
		{exactly(all, 0, true), 0},
		{resourceapi.DeviceRequest{FirstAvailable: []resourceapi.DeviceSubRequest{{Count: 4}, {Count: 2}, {Count: 3}}}, 2},
		{resourceapi.DeviceRequest{FirstAvailable: []resourceapi.DeviceSubRequest{{Count: 4}, {AllocationMode: all}}}, 1},
		{resourceapi.DeviceRequest{}, 0},
	} {
		if got := leastOf(&test.request); got != test.want {
			t.Errorf("%+v: %d, want %d", test.request, got, test.want)
		}
	}
}
