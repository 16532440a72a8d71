// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package charge

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/podclaims"
)

func extendedClass(name, extended string, age time.Duration) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Time{Time: time.Unix(1_000_000, 0).Add(-age)}},
		Spec:       resourceapi.DeviceClassSpec{ExtendedResourceName: ptr.To(extended)},
	}
}

// asksFor is a container with requests, each a name and an amount.
func asksFor(requests ...string) corev1.Container {
	c := corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	for i := 0; i < len(requests); i += 2 {
		c.Resources.Requests[corev1.ResourceName(requests[i])] = resource.MustParse(requests[i+1])
	}
	return c
}

func TestKueueExtended(t *testing.T) {
	const gpu, nic = "example.com/gpu", "example.com/nic"
	classes := []*resourceapi.DeviceClass{extendedClass("old", gpu, time.Hour), extendedClass("gpu", gpu, 0), extendedClass("nic", nic, 0)}
	mapped := []Mapping{{Resource: "gpus", Classes: []string{"gpu"}}, {Resource: "olds", Classes: []string{"old"}}}
	for name, test := range map[string]struct {
		init, containers []corev1.Container
		mappings         []Mapping
		want             map[corev1.ResourceName]int64
		err              string
	}{
		"of its own name":             {nil, []corev1.Container{asksFor(gpu, "2")}, nil, map[corev1.ResourceName]int64{gpu: 2}, ""},
		"by the mapping of the newer": {nil, []corev1.Container{asksFor(gpu, "2", nic, "1")}, mapped, map[corev1.ResourceName]int64{"gpus": 2, nic: 1}, ""},
		"containers together":         {nil, []corev1.Container{asksFor(gpu, "2"), asksFor(gpu, "3")}, nil, map[corev1.ResourceName]int64{gpu: 5}, ""},
		"the largest init container":  {[]corev1.Container{asksFor(gpu, "4"), asksFor(gpu, "6")}, []corev1.Container{asksFor(gpu, "2"), asksFor(gpu, "3")}, nil, map[corev1.ResourceName]int64{gpu: 6}, ""},
		"two names of one mapping":    {nil, []corev1.Container{asksFor(gpu, "2", nic, "1")}, []Mapping{{Resource: "all", Classes: []string{"gpu", "nic"}}}, map[corev1.ResourceName]int64{"all": 3}, ""},
		"no devices stand for it":     {nil, []corev1.Container{asksFor("example.com/other", "500m", "cpu", "1")}, nil, map[corev1.ResourceName]int64{}, ""},
		"nothing":                     {nil, []corev1.Container{asksFor(gpu, "0")}, nil, map[corev1.ResourceName]int64{}, ""},
		"less than nothing":           {nil, []corev1.Container{asksFor(gpu, "2"), asksFor(gpu, "-9223372036854775808")}, nil, map[corev1.ResourceName]int64{gpu: 2}, ""},
		"a class by its own name":     {nil, []corev1.Container{asksFor("deviceclass.resource.kubernetes.io/gpu", "1")}, nil, map[corev1.ResourceName]int64{}, ""},
		"parts":                       {nil, []corev1.Container{asksFor(gpu, "500m"), asksFor(gpu, "500m")}, nil, nil, "500m is no whole number"},
		"too much":                    {nil, []corev1.Container{asksFor(gpu, "9e18"), asksFor(gpu, "9e18")}, nil, nil, "is too much"},
		"sources":                     {nil, []corev1.Container{asksFor(gpu, "1")}, []Mapping{{Resource: "memory", Classes: []string{"gpu"}, Sources: counters.Sources}}, nil, "has a mapping with sources: memory"},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := KueueExtended(&corev1.PodSpec{InitContainers: test.init, Containers: test.containers}, classes, test.mappings)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil || len(list) != len(test.want) {
				t.Errorf("counts %v, error %v, want %v", list, err, test.want)
			}
			for name, want := range test.want {
				if got := list[name]; got.CmpInt64(want) != 0 {
					t.Errorf("counts %s of %s, want %d", got.String(), name, want)
				}
			}
		})
	}
}

// The claim that is created for extended resources is charged.
func TestExtendedClaim(t *testing.T) {
	cluster := clusterOf(gpu("a", "80Gi", "80Gi", nil), gpu("b", "40Gi", "40Gi", nil))
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{asksFor("example.com/gpu", "1")}}}
	class := extendedClass("gpu", "example.com/gpu", 0)
	claim := podclaims.ExtendedClaim(pod)
	claim.Spec.Devices.Requests, _ = podclaims.AllExtendedRequests(pod, podclaims.ExtendedResources(pod), func(name corev1.ResourceName) *resourceapi.DeviceClass {
		return podclaims.ClassesByResource([]*resourceapi.DeviceClass{class})[name]
	})
	charge, err := cluster.Of(t.Context(), claim, []Mapping{counters, ByClass("gpu")})
	if err != nil {
		t.Fatal(err)
	}
	memory, devices := charge.Of["gpu-memory"], charge.Of[ByClass("gpu").Resource]
	if memory.Least.Cmp(resource.MustParse("40Gi")) != 0 || memory.Most.Cmp(resource.MustParse("80Gi")) != 0 || devices.Least.CmpInt64(1) != 0 || devices.Most.CmpInt64(1) != 0 {
		t.Errorf("takes %s to %s, %s to %s devices", memory.Least.String(), memory.Most.String(), devices.Least.String(), devices.Most.String())
	}
}
