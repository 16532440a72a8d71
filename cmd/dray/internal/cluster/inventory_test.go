// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A pool that no node reaches may be invalid all the same.
func TestPoolThatNoNodeReaches(t *testing.T) {
	c := read(t, `{apiVersion: v1, kind: Node, metadata: {name: n1}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: d.example.com
  nodeName: gone
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  devices: [{name: part, consumesCounters: [{counterSet: none, counters: {c: {value: "1"}}}]}]
`)
	states, err := c.Inventory(nil)
	if err != nil || len(states) != 1 || !strings.Contains(states[0].Invalid, "none") || len(states[0].Nodes) != 0 {
		t.Errorf("pools %+v, %v; want one without nodes that says that there is no such counter set", states, err)
	}
}

// Devices that do not reach a node are marked as such, in the answer for that node only.
func TestReachedMarksDevices(t *testing.T) {
	c := read(t, `{apiVersion: v1, kind: Node, metadata: {name: n1}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2}}
---
{apiVersion: v1, kind: Node, metadata: {name: n3}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: d.example.com
  perDeviceNodeSelection: true
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  devices: [{name: first, nodeName: n1}, {name: second, nodeName: n2}, {name: any, allNodes: true}]
`)
	for i, want := range [][]string{{"first", "any"}, {"second", "any"}, {"any"}} {
		states, err := c.Reached(c.Nodes[i])
		if err != nil || len(states) != 1 {
			t.Fatalf("pools %v, %v", states, err)
		}
		var here []string
		for _, device := range states[0].Devices {
			if !device.Elsewhere {
				here = append(here, device.Name)
			}
		}
		if diff := cmp.Diff(want, here); diff != "" || len(states[0].Devices) != 3 {
			t.Errorf("%s: %d devices; reached (-want +got):\n%s", c.Nodes[i].Name, len(states[0].Devices), diff)
		}
	}
}
