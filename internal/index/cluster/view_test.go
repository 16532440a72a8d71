// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/internal/dev/given"
	"github.com/dray-project/dray/internal/index/pool"
)

type objects = []*resourceapi.ResourceSlice

// describe prints a view: one line per pool, as "driver/name: device device", with
// a device that is not on the node in brackets, or the reason.
func describe(v NodeView) string {
	var lines []string
	for _, p := range v.Pools {
		line := p.Pool.ID.String() + ":"
		switch {
		case p.Incomplete != "":
			line += " incomplete: " + p.Incomplete
		case p.Invalid != "":
			line += " invalid: " + p.Invalid
		}
		for i, onNode := range p.All() {
			line += " " + describeDevice(p, i, onNode)
		}
		if p.Binding {
			line += " (binding)"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func describeDevice(v *pool.View, i pool.DeviceIndex, onNode bool) string {
	name := v.Pool.Devices[i].Object.Name
	switch {
	case v.Uncertain[i] != nil:
		return name + "!"
	case !onNode:
		return "(" + name + ")"
	}
	return name
}

type viewTest struct {
	name   string
	gates  *pool.Gates // nil: all
	slices objects
	node   *corev1.Node // nil: "worker" in zone a
	want   string
	err    string
}

func (test viewTest) run(t *testing.T) {
	gates, node := everything, given.Node("worker", "zone", "a")
	if test.gates != nil {
		gates = *test.gates
	}
	if test.node != nil {
		node = test.node
	}
	view, err := Build(gates, test.slices).GatherPools(node)
	if test.err != "" {
		if err == nil || !strings.HasPrefix(err.Error(), test.err) {
			t.Fatalf("error %v, want prefix %q", err, test.err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(test.want, describe(view)); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
	if view.Node != node {
		t.Error("view names another node")
	}
}

func runViews(t *testing.T, tests []viewTest) {
	for _, test := range tests {
		t.Run(test.name, test.run)
	}
}

func TestGenerationsAndCompleteness(t *testing.T) {
	runViews(t, []viewTest{{
		name:   "no slices",
		slices: nil,
		want:   "",
	}, {
		name:   "complete in one slice",
		slices: objects{given.Slice("s", "p", given.OnNode("worker"), given.Devices("a", "b"))},
		want:   "gpu.example.com/p: a b",
	}, {
		name: "only the highest generation counts",
		slices: objects{
			given.Slice("s1", "p", given.Generation(1, 1), given.OnNode("worker"), given.Devices("old")),
			given.Slice("s2", "p", given.Generation(2, 1), given.OnNode("worker"), given.Devices("new")),
		},
		want: "gpu.example.com/p: new",
	}, {
		name: "a newer generation that the node cannot reach hides the pool",
		slices: objects{
			given.Slice("s1", "p", given.Generation(1, 1), given.OnNode("worker"), given.Devices("old")),
			given.Slice("s2", "p", given.Generation(2, 1), given.OnNode("other"), given.Devices("new")),
		},
		want: "",
	}, {
		name: "slices that the node cannot reach count for completeness",
		slices: objects{
			given.Slice("s1", "p", given.Count(2), given.OnNode("worker"), given.Devices("a")),
			given.Slice("s2", "p", given.Count(2), given.OnNode("other"), given.Devices("b")),
		},
		want: "gpu.example.com/p: a",
	}, {
		name: "slices of an unknown kind of node selection count, too",
		slices: objects{
			given.Slice("s1", "p", given.Count(2), given.OnNode("worker"), given.Devices("a")),
			given.Slice("s2", "p", given.Count(2), given.Devices("b")),
		},
		want: "gpu.example.com/p: a",
	}, {
		name: "missing slice",
		slices: objects{
			given.Slice("s1", "p", given.Generation(4, 3), given.OnNode("worker"), given.Devices("a")),
			given.Slice("s2", "p", given.Generation(4, 3), given.OnNode("other"), given.Devices("b")),
			given.Slice("s3", "p", given.Generation(3, 3), given.OnNode("worker"), given.Devices("c")),
		},
		want: "gpu.example.com/p: incomplete: 2 of 3 slices of generation 4 present",
	}, {
		name: "too many slices",
		slices: objects{
			given.Slice("s1", "p", given.OnNode("worker"), given.Devices("a")),
			given.Slice("s2", "p", given.OnNode("worker"), given.Devices("b")),
		},
		want: "gpu.example.com/p: incomplete: too many slices of generation 1: 2 present, resourceSliceCount is 1",
	}, {
		name: "slices disagree",
		slices: objects{
			given.Slice("s1", "p", given.Count(2), given.OnNode("worker"), given.Devices("a")),
			given.Slice("s2", "p", given.Count(3), given.OnNode("worker"), given.Devices("b")),
		},
		want: "gpu.example.com/p: incomplete: slices of generation 1 disagree on resourceSliceCount: 2 and 3",
	}, {
		name:   "nil slices and objects without names",
		slices: objects{nil, {}, given.Slice("s", "p", given.OnNode("worker"), given.Devices("a")), nil},
		want:   "gpu.example.com/p: a",
	}, {
		name: "equal object names are kept, in input order",
		slices: objects{
			given.Slice("s", "p", given.Count(2), given.OnNode("worker"), given.Devices("b")),
			given.Slice("s", "p", given.Count(2), given.OnNode("worker"), given.Devices("a")),
		},
		want: "gpu.example.com/p: b a",
	}})
}

func TestOrder(t *testing.T) {
	runViews(t, []viewTest{{
		name: "pools by driver and name, slices by name, devices as listed",
		slices: objects{
			given.Slice("s4", "b", given.DrivenBy("y.example.com"), given.Everywhere, given.Devices("7")),
			given.Slice("s3", "a", given.DrivenBy("y.example.com"), given.OnNode("worker"), given.Devices("6")),
			given.Slice("s2", "z", given.DrivenBy("x.example.com"), given.Count(2), given.OnNode("worker"), given.Devices("3", "2")),
			given.Slice("s1", "z", given.DrivenBy("x.example.com"), given.Count(2), given.Selecting(given.InZone("a")), given.Devices("9", "1")),
		},
		want: "x.example.com/z: 9 1 3 2\ny.example.com/a: 6\ny.example.com/b: 7",
	}, {
		name: "pools with binding conditions come last",
		slices: objects{
			given.Slice("s1", "a", given.OnNode("worker"), given.Devices("1"), given.Device("2", given.Binding("Ready"))),
			given.Slice("s2", "b", given.Everywhere, given.Devices("3")),
			given.Slice("s3", "c", given.Everywhere, given.Device("4", given.Binding())),
			given.Slice("s4", "d", given.Everywhere, given.Devices("5")),
		},
		want: "gpu.example.com/b: 3\ngpu.example.com/d: 5\ngpu.example.com/a: 1 2 (binding)\ngpu.example.com/c: 4 (binding)",
	}, {
		name: "binding conditions of unreachable slices and broken pools do not matter",
		slices: objects{
			given.Slice("s1", "a", given.Count(2), given.OnNode("worker"), given.Devices("1")),
			given.Slice("s2", "a", given.Count(2), given.OnNode("other"), given.Device("2", given.Binding("Ready"))),
			given.Slice("s3", "b", given.Count(2), given.OnNode("worker"), given.Device("3", given.Binding("Ready"))),
			given.Slice("s4", "c", given.OnNode("worker"), given.Devices("4")),
		},
		want: "gpu.example.com/a: 1\ngpu.example.com/b: incomplete: 1 of 2 slices of generation 1 present\ngpu.example.com/c: 4",
	}})
}

func TestInvalidPools(t *testing.T) {
	partitions := func(options ...given.SliceOption) *resourceapi.ResourceSlice {
		return given.Slice("s1", "p", append([]given.SliceOption{given.Count(2), given.OnNode("worker")}, options...)...)
	}
	runViews(t, []viewTest{{
		name:   "duplicate device name in a slice",
		slices: objects{given.Slice("s1", "p", given.OnNode("worker"), given.Devices("gpu-0", "gpu-1", "gpu-0"))},
		want:   `gpu.example.com/p: invalid: duplicate device name "gpu-0"`,
	}, {
		name: "duplicate device name in two slices",
		slices: objects{
			given.Slice("s1", "p", given.Count(2), given.Everywhere, given.Devices("gpu-0")),
			given.Slice("s2", "p", given.Count(2), given.OnNode("worker"), given.Devices("gpu-0")),
		},
		want: `gpu.example.com/p: invalid: duplicate device name "gpu-0"`,
	}, {
		name: "equal names on different nodes are fine",
		slices: objects{
			given.Slice("s1", "p", given.Count(2), given.OnNode("worker"), given.Devices("gpu-0")),
			given.Slice("s2", "p", given.Count(2), given.OnNode("other"), given.Devices("gpu-0")),
		},
		want: "gpu.example.com/p: gpu-0",
	}, {
		name:   "valid counters",
		slices: objects{partitions(given.Device("mig-1", given.Consumes("gpu-0", "1Gi"))), given.Slice("s2", "p", given.Count(2), given.OnNode("worker"), given.CounterSet("gpu-0", "4Gi"))},
		want:   "gpu.example.com/p: mig-1",
	}, {
		name:   "counters may be on a slice that the node cannot reach",
		slices: objects{partitions(given.Device("mig-1", given.Consumes("gpu-0", "1Gi"))), given.Slice("s2", "p", given.Count(2), given.OnNode("other"), given.CounterSet("gpu-0", "4Gi"))},
		want:   "gpu.example.com/p: mig-1",
	}, {
		name:   "a slice with counter sets has no devices",
		slices: objects{given.Slice("s2", "p", given.OnNode("worker"), given.CounterSet("gpu-0", "4Gi"), given.Devices("gpu-0", "gpu-0"))},
		want:   "gpu.example.com/p:",
	}, {
		name:   "unknown counter set",
		slices: objects{partitions(given.Device("mig-1", given.Consumes("gpu-1", "1Gi"))), given.Slice("s2", "p", given.Count(2), given.OnNode("worker"), given.CounterSet("gpu-0", "4Gi"))},
		want:   `gpu.example.com/p: invalid: device "mig-1" consumes unknown counter set "gpu-1"`,
	}, {
		name:   "unknown counter",
		slices: objects{partitions(given.Device("mig-1", given.ConsumesCounter("gpu-0", "cores", "1"))), given.Slice("s2", "p", given.Count(2), given.OnNode("worker"), given.CounterSet("gpu-0", "4Gi"))},
		want:   `gpu.example.com/p: invalid: device "mig-1" consumes unknown counter "cores" of counter set "gpu-0"`,
	}, {
		name:   "unknown counter of a device that the node cannot reach",
		slices: objects{partitions(given.Devices("a")), given.Slice("s2", "p", given.Count(2), given.OnNode("other"), given.Device("b", given.Consumes("gpu-0", "1Gi")))},
		want:   `gpu.example.com/p: invalid: device "b" consumes unknown counter set "gpu-0"`,
	}, {
		name: "duplicate counter set",
		slices: objects{
			partitions(given.CounterSet("gpu-0", "4Gi")),
			given.Slice("s2", "p", given.Count(2), given.OnNode("other"), given.CounterSet("gpu-0", "4Gi")),
		},
		want: `gpu.example.com/p: invalid: duplicate counter set name "gpu-0"`,
	}, {
		name:   "device names are looked at before counters",
		slices: objects{given.Slice("s1", "p", given.OnNode("worker"), given.Devices("a", "a"), given.Device("b", given.Consumes("gpu-0", "1Gi")))},
		want:   `gpu.example.com/p: invalid: duplicate device name "a"`,
	}, {
		name:   "incomplete pools are not validated",
		slices: objects{partitions(given.Devices("a", "a"), given.Device("b", given.Consumes("gpu-0", "1Gi")))},
		want:   "gpu.example.com/p: incomplete: 1 of 2 slices of generation 1 present",
	}})
}

func TestGates(t *testing.T) {
	off := &pool.Gates{}
	groupsOff := &pool.Gates{PartitionableDevices: true}
	partitioned := objects{
		given.Slice("s1", "p", given.Count(3), given.OnNode("worker"), given.Device("a", given.Consumes("gpu-0", "1Gi"))),
		given.Slice("s2", "p", given.Count(3), given.OnNode("worker"), given.CounterSet("gpu-0", "4Gi"), given.Devices("a")),
		given.Slice("s3", "p", given.Count(3), given.PerDevice, given.Device("b", given.DeviceOnNode("worker"))),
	}
	grouped := given.Slice("s2", "p", given.Count(2), given.OnNode("worker"), given.Device("b", given.Consumes("gpu-0", "1Gi", "g")))
	runViews(t, []viewTest{{
		name:   "partitionable devices on",
		slices: partitioned,
		want:   "gpu.example.com/p: a b",
	}, {
		name:   "partitionable devices off: slices are passed over but count",
		gates:  off,
		slices: partitioned,
		want:   "gpu.example.com/p: a",
	}, {
		name:   "partitionable devices off: a pool of only such slices is not there",
		gates:  off,
		slices: objects{given.Slice("s3", "p", given.PerDevice, given.Device("b", given.DeviceOnNode("worker")))},
		want:   "",
	}, {
		name:   "partitionable devices off: selectors of passed-over slices are not evaluated",
		gates:  off,
		slices: objects{given.Slice("s3", "p", given.Selecting(given.Unparsable()), given.CounterSet("gpu-0", "4Gi"))},
		want:   "",
	}, {
		name:   "partitionable devices off: counters are not validated",
		gates:  off,
		slices: objects{given.Slice("s1", "p", given.OnNode("worker"), given.Device("a", given.Consumes("gpu-0", "1Gi")))},
		want:   "gpu.example.com/p: a",
	}, {
		name:   "compatibility groups off: the slice is missing",
		gates:  groupsOff,
		slices: objects{given.Slice("s1", "p", given.Count(2), given.OnNode("worker"), given.Devices("a")), grouped},
		want:   "gpu.example.com/p: incomplete: 1 of 2 slices of generation 1 present, 1 left out because compatibility groups are not enabled",
	}, {
		name:   "compatibility groups off: its generation still counts",
		gates:  groupsOff,
		slices: objects{given.Slice("s1", "p", given.Generation(0, 1), given.OnNode("worker"), given.Devices("a")), grouped},
		want:   "",
	}})
}

func TestSelectorErrors(t *testing.T) {
	bad := given.DeviceSelecting(given.Unparsable())
	runViews(t, []viewTest{{
		name:   "slice",
		slices: objects{given.Slice("s", "p", given.Selecting(given.Unparsable()))},
		err:    "ResourceSlice s: nodeSelector: ",
	}, {
		name: "outdated slice",
		slices: objects{
			given.Slice("s", "p", given.Selecting(given.Unparsable())),
			given.Slice("t", "p", given.Generation(2, 1), given.OnNode("other")),
		},
		err: "ResourceSlice s: nodeSelector: ",
	}, {
		name: "device before any that is on the node",
		slices: objects{
			given.Slice("s", "p", given.PerDevice, given.Device("a", given.DeviceOnNode("other")), given.Device("b", bad), given.Device("c", given.DeviceOnNode("worker"))),
		},
		err: "ResourceSlice s: device b: nodeSelector: ",
	}, {
		name: "device after one that is on the node",
		slices: objects{
			given.Slice("s", "p", given.PerDevice, given.Device("a", given.DeviceOnNode("other")), given.Device("b", given.DeviceOnNode("worker")), given.Device("c", bad), given.Devices("d")),
		},
		want: "gpu.example.com/p: (a) b c! (d)",
	}, {
		name:   "node name comes before selector",
		slices: objects{given.Slice("s", "p", given.OnNode("worker"), given.Selecting(given.Unparsable()), given.Devices("a"))},
		want:   "gpu.example.com/p: a",
	}, {
		name:   "slice of another node",
		slices: objects{given.Slice("s", "p", given.OnNode("other"), given.Selecting(given.Unparsable()), given.Devices("a"))},
		want:   "",
	}})
	if _, err := Build(everything, nil).GatherPools(nil); err == nil {
		t.Error("nil node: no error")
	}
}

func TestReach(t *testing.T) {
	fields := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"worker"}}},
	}}}
	for i, test := range []struct {
		option given.SliceOption
		want   bool
	}{
		{given.OnNode("worker"), true},
		{given.OnNode("other"), false},
		{given.OnNode(""), false},
		{given.Everywhere, true},
		{given.Selecting(given.InZone("a", "b")), true},
		{given.Selecting(given.InZone("c")), false},
		{given.Selecting(fields), true},
		{given.Selecting(&corev1.NodeSelector{}), false},
		{func(*resourceapi.ResourceSlice) {}, false},
		{func(s *resourceapi.ResourceSlice) {
			given.PerDevice(s)
			s.Spec.Devices[0].AllNodes = s.Spec.PerDeviceNodeSelection
		}, true},
		{func(s *resourceapi.ResourceSlice) {
			given.PerDevice(s)
			given.DeviceOnNode("worker")(&s.Spec.Devices[0])
		}, true},
		{func(s *resourceapi.ResourceSlice) {
			given.PerDevice(s)
			given.DeviceOnNode("other")(&s.Spec.Devices[0])
		}, false},
		{func(s *resourceapi.ResourceSlice) {
			given.PerDevice(s)
			given.DeviceSelecting(given.InZone("a"))(&s.Spec.Devices[0])
		}, true},
		{given.PerDevice, false},
	} {
		t.Run(fmt.Sprint(i), viewTest{
			slices: objects{given.Slice("s", "p", given.Devices("gpu"), test.option)},
			want:   map[bool]string{true: "gpu.example.com/p: gpu"}[test.want],
		}.run)
	}
}

func TestManySlicesOfOneNodePool(t *testing.T) {
	var fleet objects
	for i := range 30 {
		fleet = append(fleet, given.Slice(fmt.Sprintf("s%02d", i), "fleet", given.Count(31), given.OnNode(fmt.Sprintf("n%d", i%10)), given.Devices(fmt.Sprintf("d%d", i))))
	}
	fleet = append(fleet, given.Slice("s15b", "fleet", given.Count(31), given.Everywhere, given.Devices("x")))
	viewTest{slices: fleet, node: given.Node("n7"), want: "gpu.example.com/fleet: d7 x d17 d27"}.run(t)
	viewTest{slices: fleet, node: given.Node("elsewhere"), want: "gpu.example.com/fleet: x"}.run(t)
}

// Places are found by shortcuts where there are more names than slots for some, too, and each Snapshot finds its own.
func TestPlacesOfManyNodes(t *testing.T) {
	const n = 300
	b := NewBuilder(everything)
	b.Set(manyPools("a", n)...)
	before := b.Snapshot()
	for i := range n {
		before.Place(given.Node(fmt.Sprintf("a-%d", i)))
	}
	b.Set(manyPools("a", n/2)...)
	after := b.Snapshot()
	for range 2 {
		for i := range n {
			node := given.Node(fmt.Sprintf("a-%d", i))
			for _, s := range []*Snapshot{before, after} {
				views := s.Place(node).Pools
				if len(views) != 1 || views[0].Pool.ID.Name != node.Name || s.Pool(views[0].Pool.ID) != views[0].Pool {
					t.Fatalf("%s is at the place of another node or snapshot", node.Name)
				}
			}
		}
	}
	if found := before.Place(given.Node("elsewhere")); len(found.Pools) != 0 {
		t.Error("a node that no slice names is at the place of another one")
	}
}

// The devices of a node may have others between them.
func TestDevicesOfANodeByPosition(t *testing.T) {
	s := Build(everything, objects{
		given.Slice("s1", "p", given.Count(3), given.OnNode("worker"), given.Devices("a", "b")),
		given.Slice("s2", "p", given.Count(3), given.OnNode("other"), given.Devices("c", "d")),
		given.Slice("s3", "p", given.Count(3), given.OnNode("worker"), given.Devices("e")),
	})
	for node, want := range map[string][]string{"worker": {"a", "b", "e"}, "other": {"c", "d"}} {
		view := s.Place(given.Node(node)).Pools[0]
		var got []string
		for _, i := range view.Here {
			got = append(got, view.Pool.Devices[i].Object.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has %v, not %v", node, got, want)
		}
	}
}
