// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
)

// odd scenarios have objects that the compact language has no words for.
var odd = map[string]bool{"taints/unknown-operator": true, "node-selectors/two-terms": true}

func TestFormatRoundTrip(t *testing.T) {
	for s := range Scenarios() {
		t.Run(s.File+"/"+s.Name, func(t *testing.T) {
			text := roundTrip(t, s.Case)
			if !odd[s.File+"/"+s.Name] && s.File != "unknown" && strings.Contains(text, "yaml\n") {
				t.Errorf("written with YAML:\n%s", text)
			}
		})
	}
}

func roundTrip(t *testing.T, c *Case) string {
	t.Helper()
	text, err := Format(c, Outcome{Err: errors.New("bad"), NodeOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	scenarios, err := Parse("formatted", text)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	read := scenarios[0]
	if read.Case.Name != c.Name || read.Expected != "error on this node\n" {
		t.Errorf("read back name %q, outcome %q", read.Case.Name, read.Expected)
	}
	if again, err := Format(read.Case, Outcome{Err: errors.New("bad"), NodeOnly: true}); err != nil || again != text {
		t.Errorf("read back as\n%s\nerror %v, was\n%s", again, err, text)
	}
	return text
}

// Objects that the language cannot express are written as YAML.
func TestFormatFallsBackToYAML(t *testing.T) {
	node := &corev1.Node{}
	node.Name = "node-1"
	node.Spec.Unschedulable = true
	class := &resourceapi.DeviceClass{}
	class.Name = "gpu"
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "true &&\n\n  true\n"}}}
	slice := &resourceapi.ResourceSlice{}
	slice.Name = "s"
	slice.Spec.Devices = []resourceapi.Device{{Name: "counters"}, {Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"big":   {IntValue: new(int64(9007199254740993))},
		"empty": {},
	}}}
	held := &resourceapi.ResourceClaim{}
	held.Name, held.UID = "held", "u-1"
	held.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: &corev1.NodeSelector{}}
	claim := &resourceapi.ResourceClaim{}
	claim.Name = "wanted"
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "nothing"}}
	text := roundTrip(t, &Case{
		Name: "odd", Node: "node-1", Features: allocator.Features{DeviceTaints: true},
		Nodes:     []*corev1.Node{node},
		Classes:   []*resourceapi.DeviceClass{class},
		Slices:    []*resourceapi.ResourceSlice{slice},
		Allocated: []*resourceapi.ResourceClaim{held},
		Claims:    []*resourceapi.ResourceClaim{claim},
	})
	if got := strings.Count(text, "\nyaml\n"); got != 5 {
		t.Errorf("%d objects are YAML, want all 5:\n%s", got, text)
	}
}

func TestFormatRefuses(t *testing.T) {
	node := &corev1.Node{}
	node.Name = "n"
	unallocated := &resourceapi.ResourceClaim{}
	unallocated.Name = "c"
	for _, test := range []struct {
		name, want string
		c          Case
	}{
		{"name", "name is not a single word", Case{Name: "a b", Node: "n", Nodes: []*corev1.Node{node}}},
		{"no node", `has no node "m"`, Case{Name: "a", Node: "m", Nodes: []*corev1.Node{node}}},
		{"same name", "there already", Case{Name: "a", Node: "n", Nodes: []*corev1.Node{node, node}}},
		{"nameless", "without a name", Case{Name: "a", Node: "n", Nodes: []*corev1.Node{node, {}}}},
		{"unallocated", "has no allocation", Case{Name: "a", Node: "n", Nodes: []*corev1.Node{node}, Allocated: []*resourceapi.ResourceClaim{unallocated}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Format(&test.c, Outcome{}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	// The last scenario of each file will do: all of them take long to mutate.
	seeds := make(map[string]string)
	for s := range Scenarios() {
		text, err := Format(s.Case, Outcome{})
		if err != nil {
			f.Fatal(err)
		}
		seeds[s.File] = text
	}
	for _, text := range seeds {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		scenarios, err := Parse("fuzz", text)
		if err != nil {
			return
		}
		for _, s := range scenarios {
			if _, err := Format(s.Case, Outcome{}); err == nil {
				roundTrip(t, s.Case)
			}
		}
	})
}
