// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/simulate"
)

// byAttribute is a policy that reads an attribute: devices with larger strings come first.
type byAttribute resourceapi.FullyQualifiedName

func (p byAttribute) Reads() []resourceapi.FullyQualifiedName {
	return []resourceapi.FullyQualifiedName{resourceapi.FullyQualifiedName(p)}
}

func (p byAttribute) Before(a, b allocator.Candidate) bool {
	x, _ := a.Attribute(resourceapi.FullyQualifiedName(p))
	y, _ := b.Attribute(resourceapi.FullyQualifiedName(p))
	return ptr.Deref(x.StringValue, "") > ptr.Deref(y.StringValue, "")
}

// Nodes that differ only in what the device policy reads do not share answers.
func TestNodesDifferByWhatDevicePolicyReads(t *testing.T) {
	c := gpuCluster("node-0", "node-1")
	for n, slice := range c.Slices {
		for i := range slice.Spec.Devices {
			rank := []string{"a", "b", "c", "d"}[(i+n)%4]
			slice.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"rank": {StringValue: &rank}}
		}
	}
	state := open(t, c, simulate.Options{DevicePolicy: byAttribute("gpu.example.com/rank")})
	for n, want := range []string{"gpu-3", "gpu-2"} {
		only := simulate.Real(func(node *corev1.Node) bool { return node.Name == c.Nodes[n].Name })
		result, err := state.Sim().Place(t.Context(), gpuPods("one", 1)[0], only, simulate.FirstFit)
		if err != nil || !result.All() {
			t.Fatalf("%+v, %v", result, err)
		}
		for p := range result.Placements() {
			claims, err := p.Claims(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := claims[0].Status.Allocation.Devices.Results[0].Device; got != want {
				t.Errorf("%s: got %s, want %s", p.Node.Name(), got, want)
			}
		}
	}
}

// An attribute that is no name is an error of the options, not of pods.
func TestTopologyThatIsWrong(t *testing.T) {
	_, err := simulate.Open(gpuCluster(), simulate.Options{Topology: []resourceapi.FullyQualifiedName{"numa"}})
	if want := `options: topology: attribute "numa": want domain/name`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Nodes whose devices differ only in whether they have attributes of a domain do not share answers if a request reads that.
func TestNodesDifferByAttributeDomains(t *testing.T) {
	c := gpuCluster("of another", "of the driver", "without")
	for n, name := range []resourceapi.QualifiedName{"links.example.com/speed", "speed"} {
		for i := range c.Slices[n].Spec.Devices {
			c.Slices[n].Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{name: {IntValue: ptr.To[int64](1)}}
		}
	}
	domains := []string{"links.example.com", "gpu.example.com"}
	for _, domain := range domains {
		template := gpuTemplate(domain, 1)
		template.Spec.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: `"` + domain + `" in device.attributes`}},
		}
		c.Templates = append(c.Templates, template)
	}
	state := open(t, c, simulate.Options{Strict: true})
	for n, domain := range domains {
		shape := shapeOf(t, state, gpuPods(domain, 1))
		for i, node := range c.Nodes {
			want := 0
			if i == n {
				want = 4
			}
			if found := fit(t, state, shape, simulate.Real(func(o *corev1.Node) bool { return o == node })); found.Pods != want || found.Undecided != 0 {
				t.Errorf("%d pods that want attributes of %s fit on the node %s, %d undecided, %v; want %d", found.Pods, domain, node.Name, found.Undecided, found.Err, want)
			}
		}
	}
}
