// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/input"
)

func selectors(expressions ...string) []resourceapi.DeviceSelector {
	var all []resourceapi.DeviceSelector
	for _, expression := range expressions {
		all = append(all, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
	}
	return all
}

// wordingOf is for a pod that calls its claims "first" and "first-too".
func wordingOf(t *testing.T, claims int) *wording {
	t.Helper()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{Selectors: selectors("isGPU", "isNew")}}
	c, err := cluster.New(&input.Objects{Classes: []*resourceapi.DeviceClass{class}}, cluster.Options{Features: allocator.AllFeatures()})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}}
	p := &cluster.Placement{Workload: cluster.Workload{Pod: pod}}
	for _, name := range []string{"first", "first-too"}[:claims] {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: ptr.To("pod-" + name)})
		p.Before = append(p.Before, &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + name},
			Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
				{Name: "a", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Selectors: selectors("other", "large")}},
				{Name: "b", FirstAvailable: []resourceapi.DeviceSubRequest{{DeviceClassName: "gpu", Selectors: selectors("large && fast")}}},
			}}},
		})
	}
	return newWording(c, p)
}

func TestWording(t *testing.T) {
	for name, test := range map[string]struct {
		claims     int
		text, want string
	}{
		"a selector by its position":         {1, "keeps 2 from a: rejected by selector 1: large", "keeps 2 from a: not matching selectors[1]"},
		"one expression begins like another": {1, "if not for 7 rejected by selector 0: large && fast", "if not for 7 not matching selectors[0]"},
		"a selector of the class":            {1, "3 rejected by class gpu: selector 1: isNew", "3 not of class gpu"},
		"an error as it is":                  {1, "5 rejected by class gpu: selector 0: no such key: model", "5 rejected by class gpu: selector 0: no such key: model"},
		"the only claim":                     {1, "request a of claim ns/pod-first and request b of claim ns/pod-first", "request a and request b"},
		"two claims":                         {2, "claim ns/pod-first: request a of claim ns/pod-first-too", "claim first: request a of claim first-too"},
	} {
		if got := wordingOf(t, test.claims).words(test.text); got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, test.want)
		}
	}
}
