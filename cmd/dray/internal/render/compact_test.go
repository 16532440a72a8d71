// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestCompact(t *testing.T) {
	for names, want := range map[string]string{
		"gpu-0":                   "gpu-0",
		"gpu-0 gpu-1":             "gpu-{0,1}",
		"gpu-0 gpu-1 gpu-2 gpu-5": "gpu-{0..2,5}",
		"gpu-2 gpu-0 gpu-1":       "gpu-{0..2}",
		"gpu-8 gpu-9 gpu-10":      "gpu-{8..10}",
		"gpu-08 gpu-09 gpu-10":    "gpu-{08..10}",
		"gpu-09 gpu-8 gpu-010":    "gpu-{8,09,010}",
		"a b0 a1 b1":              "a{,1},b{0,1}",
		"x":                       "x",
		"a3 b":                    "a3,b",
		"n99999999999999999999 n99999999999999999998": "n{99999999999999999999,99999999999999999998}",
	} {
		if got := Compact(strings.Fields(names)); got != want {
			t.Errorf("Compact(%s) = %s, want %s", names, got, want)
		}
	}
}

func TestDevices(t *testing.T) {
	share := func(device, bandwidth string) resourceapi.DeviceRequestAllocationResult {
		return resourceapi.DeviceRequestAllocationResult{Pool: "n1", Device: device, ShareID: ptr.To(types.UID("x")),
			ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse(bandwidth)}}
	}
	results := []resourceapi.DeviceRequestAllocationResult{
		{Pool: "n1", Device: "gpu-0"},
		{Pool: "n2", Device: "gpu-0"},
		{Pool: "n1", Device: "gpu-1"},
		{Pool: "n1", Device: "gpu-2", AdminAccess: ptr.To(true)},
		share("nic-0", "1G"), share("nic-1", "1G"), share("nic-0", "2G"),
	}
	want := "n1/gpu-{0,1}, n2/gpu-0, n1/gpu-2 (admin access), n1/nic-{0,1} (bandwidth 1G), n1/nic-0 (bandwidth 2G)"
	if got := Devices(results); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
