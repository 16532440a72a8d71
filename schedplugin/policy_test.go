// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// The arguments decide which devices of a node a pod gets.
func TestPolicyOfDevices(t *testing.T) {
	for name, test := range map[string]struct {
		args, want string
	}{
		"by default":  {"", "gpu-0"},
		"least waste": {"policy: LeastWaste", "gpu-1"},
		"topology":    {"topology: [gpu.example.com/numa]", "gpu-2"},
	} {
		t.Run(name, func(t *testing.T) {
			slice, claim := gpus("a", 4), gpuClaim("claim", 1)
			for i := range slice.Spec.Devices {
				slice.Spec.Devices[i].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse([]string{"80Gi", "16Gi", "40Gi", "40Gi"}[i])}}
				slice.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"numa": {IntValue: ptr.To(int64(min(i, 2)))}}
			}
			if test.want == "gpu-2" {
				claim = gpuClaim("claim", 2)
			}
			w := newWorld(t, setting{args: test.args, objects: []runtime.Object{node("a"), gpuClass(), slice, claim}})
			_, status := w.attempt(podWith("p", "claim")).place()
			expect(t, status, fwk.Success, "")
			if got := w.claim("claim").Status.Allocation.Devices.Results[0].Device; got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
