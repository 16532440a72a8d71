package pools

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
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
		for _, d := range p.Devices {
			line += " " + describeDevice(p.Pool, d)
		}
		if p.Binding {
			line += " (binding)"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func describeDevice(p *Pool, d NodeDevice) string {
	name := p.Devices[d.Index].Object.Name
	switch {
	case d.SelectorErr != nil:
		return name + "!"
	case !d.OnNode:
		return "(" + name + ")"
	}
	return name
}

type viewTest struct {
	name   string
	gates  *Gates // nil: all
	slices objects
	node   *corev1.Node // nil: "worker" in zone a
	want   string
	err    string
}

func (test viewTest) run(t *testing.T) {
	gates, node := allGates, newNode("worker", "zone", "a")
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
		slices: objects{newSlice("s", "p", onNode("worker"), devices("a", "b"))},
		want:   "gpu.example.com/p: a b",
	}, {
		name: "only the highest generation counts",
		slices: objects{
			newSlice("s1", "p", generation(1, 1), onNode("worker"), devices("old")),
			newSlice("s2", "p", generation(2, 1), onNode("worker"), devices("new")),
		},
		want: "gpu.example.com/p: new",
	}, {
		name: "a newer generation that the node cannot reach hides the pool",
		slices: objects{
			newSlice("s1", "p", generation(1, 1), onNode("worker"), devices("old")),
			newSlice("s2", "p", generation(2, 1), onNode("other"), devices("new")),
		},
		want: "",
	}, {
		name: "slices that the node cannot reach count for completeness",
		slices: objects{
			newSlice("s1", "p", count(2), onNode("worker"), devices("a")),
			newSlice("s2", "p", count(2), onNode("other"), devices("b")),
		},
		want: "gpu.example.com/p: a",
	}, {
		name: "slices of an unknown kind of node selection count, too",
		slices: objects{
			newSlice("s1", "p", count(2), onNode("worker"), devices("a")),
			newSlice("s2", "p", count(2), devices("b")),
		},
		want: "gpu.example.com/p: a",
	}, {
		name: "missing slice",
		slices: objects{
			newSlice("s1", "p", generation(4, 3), onNode("worker"), devices("a")),
			newSlice("s2", "p", generation(4, 3), onNode("other"), devices("b")),
			newSlice("s3", "p", generation(3, 3), onNode("worker"), devices("c")),
		},
		want: "gpu.example.com/p: incomplete: 2 of 3 slices of generation 4 present",
	}, {
		name: "too many slices",
		slices: objects{
			newSlice("s1", "p", onNode("worker"), devices("a")),
			newSlice("s2", "p", onNode("worker"), devices("b")),
		},
		want: "gpu.example.com/p: incomplete: too many slices of generation 1: 2 present, resourceSliceCount is 1",
	}, {
		name: "slices disagree",
		slices: objects{
			newSlice("s1", "p", count(2), onNode("worker"), devices("a")),
			newSlice("s2", "p", count(3), onNode("worker"), devices("b")),
		},
		want: "gpu.example.com/p: incomplete: slices of generation 1 disagree on resourceSliceCount: 2 and 3",
	}, {
		name:   "nil slices and objects without names",
		slices: objects{nil, {}, newSlice("s", "p", onNode("worker"), devices("a")), nil},
		want:   "gpu.example.com/p: a",
	}, {
		name: "equal object names are kept, in input order",
		slices: objects{
			newSlice("s", "p", count(2), onNode("worker"), devices("b")),
			newSlice("s", "p", count(2), onNode("worker"), devices("a")),
		},
		want: "gpu.example.com/p: b a",
	}})
}

func TestOrder(t *testing.T) {
	runViews(t, []viewTest{{
		name: "pools by driver and name, slices by name, devices as listed",
		slices: objects{
			newSlice("s4", "b", driver("y.example.com"), everywhere, devices("7")),
			newSlice("s3", "a", driver("y.example.com"), onNode("worker"), devices("6")),
			newSlice("s2", "z", driver("x.example.com"), count(2), onNode("worker"), devices("3", "2")),
			newSlice("s1", "z", driver("x.example.com"), count(2), selecting(inZone("a")), devices("9", "1")),
		},
		want: "x.example.com/z: 9 1 3 2\ny.example.com/a: 6\ny.example.com/b: 7",
	}, {
		name: "pools with binding conditions come last",
		slices: objects{
			newSlice("s1", "a", onNode("worker"), devices("1"), device("2", binding("Ready"))),
			newSlice("s2", "b", everywhere, devices("3")),
			newSlice("s3", "c", everywhere, device("4", binding())),
			newSlice("s4", "d", everywhere, devices("5")),
		},
		want: "gpu.example.com/b: 3\ngpu.example.com/d: 5\ngpu.example.com/a: 1 2 (binding)\ngpu.example.com/c: 4 (binding)",
	}, {
		name: "binding conditions of unreachable slices and broken pools do not matter",
		slices: objects{
			newSlice("s1", "a", count(2), onNode("worker"), devices("1")),
			newSlice("s2", "a", count(2), onNode("other"), device("2", binding("Ready"))),
			newSlice("s3", "b", count(2), onNode("worker"), device("3", binding("Ready"))),
			newSlice("s4", "c", onNode("worker"), devices("4")),
		},
		want: "gpu.example.com/a: 1\ngpu.example.com/b: incomplete: 1 of 2 slices of generation 1 present\ngpu.example.com/c: 4",
	}})
}

func TestInvalidPools(t *testing.T) {
	partitions := func(options ...sliceOption) *resourceapi.ResourceSlice {
		return newSlice("s1", "p", append([]sliceOption{count(2), onNode("worker")}, options...)...)
	}
	runViews(t, []viewTest{{
		name:   "duplicate device name in a slice",
		slices: objects{newSlice("s1", "p", onNode("worker"), devices("gpu-0", "gpu-1", "gpu-0"))},
		want:   `gpu.example.com/p: invalid: duplicate device name "gpu-0"`,
	}, {
		name: "duplicate device name in two slices",
		slices: objects{
			newSlice("s1", "p", count(2), everywhere, devices("gpu-0")),
			newSlice("s2", "p", count(2), onNode("worker"), devices("gpu-0")),
		},
		want: `gpu.example.com/p: invalid: duplicate device name "gpu-0"`,
	}, {
		name: "equal names on different nodes are fine",
		slices: objects{
			newSlice("s1", "p", count(2), onNode("worker"), devices("gpu-0")),
			newSlice("s2", "p", count(2), onNode("other"), devices("gpu-0")),
		},
		want: "gpu.example.com/p: gpu-0",
	}, {
		name:   "valid counters",
		slices: objects{partitions(device("mig-1", consumes("gpu-0", "1Gi"))), newSlice("s2", "p", count(2), onNode("worker"), counterSet("gpu-0", "4Gi"))},
		want:   "gpu.example.com/p: mig-1",
	}, {
		name:   "counters may be on a slice that the node cannot reach",
		slices: objects{partitions(device("mig-1", consumes("gpu-0", "1Gi"))), newSlice("s2", "p", count(2), onNode("other"), counterSet("gpu-0", "4Gi"))},
		want:   "gpu.example.com/p: mig-1",
	}, {
		name:   "a slice with counter sets has no devices",
		slices: objects{newSlice("s2", "p", onNode("worker"), counterSet("gpu-0", "4Gi"), devices("gpu-0", "gpu-0"))},
		want:   "gpu.example.com/p:",
	}, {
		name:   "unknown counter set",
		slices: objects{partitions(device("mig-1", consumes("gpu-1", "1Gi"))), newSlice("s2", "p", count(2), onNode("worker"), counterSet("gpu-0", "4Gi"))},
		want:   `gpu.example.com/p: invalid: device "mig-1" consumes unknown counter set "gpu-1"`,
	}, {
		name:   "unknown counter",
		slices: objects{partitions(device("mig-1", consumesCounter("gpu-0", "cores", "1"))), newSlice("s2", "p", count(2), onNode("worker"), counterSet("gpu-0", "4Gi"))},
		want:   `gpu.example.com/p: invalid: device "mig-1" consumes unknown counter "cores" of counter set "gpu-0"`,
	}, {
		name:   "unknown counter of a device that the node cannot reach",
		slices: objects{partitions(devices("a")), newSlice("s2", "p", count(2), onNode("other"), device("b", consumes("gpu-0", "1Gi")))},
		want:   `gpu.example.com/p: invalid: device "b" consumes unknown counter set "gpu-0"`,
	}, {
		name: "duplicate counter set",
		slices: objects{
			partitions(counterSet("gpu-0", "4Gi")),
			newSlice("s2", "p", count(2), onNode("other"), counterSet("gpu-0", "4Gi")),
		},
		want: `gpu.example.com/p: invalid: duplicate counter set name "gpu-0"`,
	}, {
		name:   "device names are looked at before counters",
		slices: objects{newSlice("s1", "p", onNode("worker"), devices("a", "a"), device("b", consumes("gpu-0", "1Gi")))},
		want:   `gpu.example.com/p: invalid: duplicate device name "a"`,
	}, {
		name:   "incomplete pools are not validated",
		slices: objects{partitions(devices("a", "a"), device("b", consumes("gpu-0", "1Gi")))},
		want:   "gpu.example.com/p: incomplete: 1 of 2 slices of generation 1 present",
	}})
}

func TestGates(t *testing.T) {
	off := &Gates{}
	groupsOff := &Gates{PartitionableDevices: true}
	partitioned := objects{
		newSlice("s1", "p", count(3), onNode("worker"), device("a", consumes("gpu-0", "1Gi"))),
		newSlice("s2", "p", count(3), onNode("worker"), counterSet("gpu-0", "4Gi"), devices("a")),
		newSlice("s3", "p", count(3), perDevice, device("b", deviceOnNode("worker"))),
	}
	grouped := newSlice("s2", "p", count(2), onNode("worker"), device("b", consumes("gpu-0", "1Gi", "g")))
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
		slices: objects{newSlice("s3", "p", perDevice, device("b", deviceOnNode("worker")))},
		want:   "",
	}, {
		name:   "partitionable devices off: selectors of passed-over slices are not evaluated",
		gates:  off,
		slices: objects{newSlice("s3", "p", selecting(unparsable()), counterSet("gpu-0", "4Gi"))},
		want:   "",
	}, {
		name:   "partitionable devices off: counters are not validated",
		gates:  off,
		slices: objects{newSlice("s1", "p", onNode("worker"), device("a", consumes("gpu-0", "1Gi")))},
		want:   "gpu.example.com/p: a",
	}, {
		name:   "compatibility groups off: the slice is missing",
		gates:  groupsOff,
		slices: objects{newSlice("s1", "p", count(2), onNode("worker"), devices("a")), grouped},
		want:   "gpu.example.com/p: incomplete: 1 of 2 slices of generation 1 present, 1 left out because compatibility groups are not enabled",
	}, {
		name:   "compatibility groups off: its generation still counts",
		gates:  groupsOff,
		slices: objects{newSlice("s1", "p", generation(0, 1), onNode("worker"), devices("a")), grouped},
		want:   "",
	}})
}

func TestSelectorErrors(t *testing.T) {
	bad := deviceSelecting(unparsable())
	runViews(t, []viewTest{{
		name:   "slice",
		slices: objects{newSlice("s", "p", selecting(unparsable()))},
		err:    "resource slice s: nodeSelector: ",
	}, {
		name: "outdated slice",
		slices: objects{
			newSlice("s", "p", selecting(unparsable())),
			newSlice("t", "p", generation(2, 1), onNode("other")),
		},
		err: "resource slice s: nodeSelector: ",
	}, {
		name: "device before any that is on the node",
		slices: objects{
			newSlice("s", "p", perDevice, device("a", deviceOnNode("other")), device("b", bad), device("c", deviceOnNode("worker"))),
		},
		err: "resource slice s: device b: nodeSelector: ",
	}, {
		name: "device after one that is on the node",
		slices: objects{
			newSlice("s", "p", perDevice, device("a", deviceOnNode("other")), device("b", deviceOnNode("worker")), device("c", bad), devices("d")),
		},
		want: "gpu.example.com/p: (a) b c! (d)",
	}, {
		name:   "node name comes before selector",
		slices: objects{newSlice("s", "p", onNode("worker"), selecting(unparsable()), devices("a"))},
		want:   "gpu.example.com/p: a",
	}, {
		name:   "slice of another node",
		slices: objects{newSlice("s", "p", onNode("other"), selecting(unparsable()), devices("a"))},
		want:   "",
	}})
	if _, err := Build(allGates, nil).GatherPools(nil); err == nil {
		t.Error("nil node: no error")
	}
}

func TestReach(t *testing.T) {
	fields := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"worker"}}},
	}}}
	for i, test := range []struct {
		option sliceOption
		want   bool
	}{
		{onNode("worker"), true},
		{onNode("other"), false},
		{onNode(""), false},
		{everywhere, true},
		{selecting(inZone("a", "b")), true},
		{selecting(inZone("c")), false},
		{selecting(fields), true},
		{selecting(&corev1.NodeSelector{}), false},
		{func(*resourceapi.ResourceSlice) {}, false},
		{func(s *resourceapi.ResourceSlice) {
			perDevice(s)
			s.Spec.Devices[0].AllNodes = s.Spec.PerDeviceNodeSelection
		}, true},
		{func(s *resourceapi.ResourceSlice) { perDevice(s); deviceOnNode("worker")(&s.Spec.Devices[0]) }, true},
		{func(s *resourceapi.ResourceSlice) { perDevice(s); deviceOnNode("other")(&s.Spec.Devices[0]) }, false},
		{func(s *resourceapi.ResourceSlice) {
			perDevice(s)
			deviceSelecting(inZone("a"))(&s.Spec.Devices[0])
		}, true},
		{perDevice, false},
	} {
		t.Run(fmt.Sprint(i), viewTest{
			slices: objects{newSlice("s", "p", devices("gpu"), test.option)},
			want:   map[bool]string{true: "gpu.example.com/p: gpu"}[test.want],
		}.run)
	}
}

func TestManySlicesOfOneNodePool(t *testing.T) {
	var fleet objects
	for i := range 30 {
		fleet = append(fleet, newSlice(fmt.Sprintf("s%02d", i), "fleet", count(31), onNode(fmt.Sprintf("n%d", i%10)), devices(fmt.Sprintf("d%d", i))))
	}
	fleet = append(fleet, newSlice("s15b", "fleet", count(31), everywhere, devices("x")))
	viewTest{slices: fleet, node: newNode("n7"), want: "gpu.example.com/fleet: d7 x d17 d27"}.run(t)
	viewTest{slices: fleet, node: newNode("elsewhere"), want: "gpu.example.com/fleet: x"}.run(t)
}
