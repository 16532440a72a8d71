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
func wordingOf(t *testing.T, claims int, full bool) *wording {
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
				{Name: "a", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Selectors: selectors("large")}},
				{Name: "b", FirstAvailable: []resourceapi.DeviceSubRequest{{DeviceClassName: "gpu", Selectors: selectors("large && fast")}}},
			}}},
		})
	}
	return newWording(c, p, full)
}

func TestWording(t *testing.T) {
	rejections := []allocator.Rejection{
		{Reason: allocator.RejectedBySelector, Detail: "class gpu: selector 0: isGPU", Devices: 2},
		{Reason: allocator.RejectedByUse, Devices: 4},
		{Reason: allocator.RejectedBySelector, Detail: "class gpu: selector 1: isNew", Devices: 3},
		{Reason: allocator.RejectedBySelector, Detail: "selector 0: large", Devices: 1},
		{Reason: allocator.RejectedBySelector, Detail: "class gpu: selector 0: no such key: model", Devices: 5},
	}
	e := &allocator.Explanation{Requests: []allocator.RequestReport{{Claim: "ns/pod-first", Request: "a", Rejections: rejections}}}
	for name, test := range map[string]struct {
		claims     int
		full       bool
		text, want string
	}{
		"counts of a class together; errors as they are": {1, false,
			"claim ns/pod-first: request a " + e.Requests[0].String(),
			"request a 0 needed, 0 reach the node, 0 candidates (5 not of class gpu, 4 in use, 1 not matching large, 5 rejected by class gpu: selector 0: no such key: model)"},
		"in full": {1, true,
			e.Requests[0].String(),
			"0 needed, 0 reach the node, 0 candidates (2 not of class gpu: isGPU, 4 in use, 3 not of class gpu: isNew, 1 not matching large, 5 rejected by class gpu: selector 0: no such key: model)"},
		"one expression begins like another": {1, false, "if not for 7 rejected by selector 0: large && fast", "if not for 7 not matching large && fast"},
		"the only claim":                     {1, false, "request a of claim ns/pod-first and request b of claim ns/pod-first", "request a and request b"},
		"two claims":                         {2, false, "claim ns/pod-first: request a of claim ns/pod-first-too", "claim first: request a of claim first-too"},
	} {
		if got := wordingOf(t, test.claims, test.full).words(e, test.text); got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, test.want)
		}
	}
}
