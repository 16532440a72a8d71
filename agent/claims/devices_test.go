// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestContainers: each container gets what it refers to, be it by request or as an extended
// resource.
func TestContainers(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"), claim("extended", []string{gpus}, "a"))
	n.driver(t, gpus)
	a := pod("a", "one")
	uses := func(name string, claims ...v1.ResourceClaim) v1.Container {
		return v1.Container{Name: name, Resources: v1.ResourceRequirements{Claims: claims}}
	}
	a.Spec.InitContainers = []v1.Container{uses("init", v1.ResourceClaim{Name: "as-one", Request: "b"})}
	a.Spec.Containers = []v1.Container{
		uses("all", v1.ResourceClaim{Name: "as-one"}),
		uses("twice", v1.ResourceClaim{Name: "as-one", Request: "a"}, v1.ResourceClaim{Name: "as-one"}),
		uses("none"), uses("extended"),
	}
	a.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{
		ResourceClaimName: "extended",
		RequestMappings:   []v1.ContainerExtendedResourceRequest{{ContainerName: "extended", ResourceName: "example.com/gpu", RequestName: "a"}},
	}
	n.prepare(t, a)
	devices, err := n.preparer.CDIDevices(a)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"init": {"gpu.example.com/claim=one-1"}, "all": {"gpu.example.com/claim=one-0", "gpu.example.com/claim=one-1"},
		"twice": {"gpu.example.com/claim=one-0", "gpu.example.com/claim=one-1"}, "none": nil,
		"extended": {"gpu.example.com/claim=extended-0"},
	} {
		same(t, name, devices[name], want...)
	}
	a.Spec.Containers = []v1.Container{uses("lost", v1.ResourceClaim{Name: "unknown"})}
	_, err = n.preparer.CDIDevices(a)
	contains(t, err, `pod ns/a: container lost: claim "unknown": not in the pod`)
}

// TestResourceName: in the status of a container, devices are named by the claim, and by the request if the container asks for one.
func TestResourceName(t *testing.T) {
	for _, test := range []struct{ claim, request, want string }{{"one", "", "claim:one"}, {"one", "a", "claim:one/a"}} {
		if got := resourceName(test.claim, test.request); string(got) != test.want {
			t.Errorf("%s, %s: %s, want %s", test.claim, test.request, got, test.want)
		}
	}
}
