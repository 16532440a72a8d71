// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package eligibility

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/internal/slab"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/index/cluster"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/quantity"
)

// variedSlice has a device of each combination of what checks ask about, on the node and elsewhere.
func variedSlice(node string) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "slice"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "driver", Pool: resourceapi.ResourcePool{Name: "pool", ResourceSliceCount: 1}, PerDeviceNodeSelection: ptr.To(true),
		},
	}
	policy := &resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse("4Gi")), ValidValues: []resource.Quantity{resource.MustParse("4Gi"), resource.MustParse("64Gi")}}
	for i := range 1 << 6 {
		is := func(bit int) bool { return i>>bit&1 == 1 }
		d := resourceapi.Device{
			Name: fmt.Sprintf("device-%02d", i), NodeName: ptr.To(node),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr.To("a")}},
			Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("8Gi")}},
		}
		if is(0) {
			d.Attributes["model"] = resourceapi.DeviceAttribute{StringValue: ptr.To("b")}
		}
		if is(1) {
			d.Capacity["memory"] = resourceapi.DeviceCapacity{Value: resource.MustParse("80Gi"), RequestPolicy: policy}
		}
		if is(2) {
			d.AllowMultipleAllocations = ptr.To(true)
		}
		if is(3) {
			d.Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
		if is(4) {
			d.NodeName = ptr.To("elsewhere")
		}
		if is(5) {
			d.BindingConditions = []string{"ready"}
		}
		slice.Spec.Devices = append(slice.Spec.Devices, d)
	}
	return slice
}

// used has every third device in use: as a whole, or in a share of 6Gi.
type used struct{}

func (used) Pool(p *pool.Pool) *pool.Usage {
	return pool.NewUsage(p, pool.Sum{}, func(i pool.DeviceIndex) pool.Use {
		switch {
		case i%3 != 0:
			return pool.Use{}
		case p.Devices[i].Multiple:
			return pool.Use{Shared: true, Consumed: []pool.Consumption{{Capacity: "memory", Amount: quantity.Amount(resource.MustParse("6Gi"))}}}
		}
		return pool.Use{Exclusive: true}
	})
}

// Equivalent devices are judged once. The result is that of judging each by itself.
func TestEqualDevicesAreJudgedAlike(t *testing.T) {
	all := Features{ConsumableCapacity: true, DeviceTaints: true, DeviceBindingAndStatus: true}
	for features, name := range map[Features]string{all: "all", {}: "none", {DeviceTaints: true}: "taints", {ConsumableCapacity: true}: "capacity"} {
		features.PartitionableDevices = true // devices choose nodes by themselves
		e := NewEvaluator(features, cel.NewCache(8), memo.Bounds{Results: 64, Selections: 8, Problems: 8})
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
		snapshot := cluster.Build(pool.Gates{PartitionableDevices: true, ConsumableCapacity: features.ConsumableCapacity}, []*resourceapi.ResourceSlice{variedSlice(node.Name)})
		view, err := snapshot.GatherPools(node)
		if err != nil {
			t.Fatal(err)
		}
		for _, expression := range []string{"true", `device.attributes["driver"].model == "a"`, `device.attributes["driver"].missing == "a"`} {
			for _, asked := range []string{"", "1Gi", "3Gi", "20Gi", "1e30"} {
				for _, admin := range []bool{false, true} {
					for _, mandatory := range []bool{false, true} {
						terms := Terms{Admin: admin, All: mandatory, Offers: []Offer{{
							Class:     &resourceapi.DeviceClass{},
							Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
						}}}
						if asked != "" {
							terms.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(asked)}}
						}
						f, err := filterOf(e, terms)
						if err != nil {
							t.Fatal(err)
						}
						domain := func(together bool) string {
							var sets slab.Sets
							var n Node
							var d Domain
							n.Begin(e, view, used{}, &sets)
							if !together {
								n.Devices = &Devices{Pools: n.Pools, List: n.List, onNode: n.onNode, special: n.allDevices()}
							}
							if err := n.Judge(t.Context(), f, &d); err != nil {
								t.Fatal(err)
							}
							if len(n.List) != 1<<6 {
								t.Fatalf("the node reaches %d devices", len(n.List))
							}
							return describe(&n, f, &d)
						}
						if got, want := domain(true), domain(false); got != want {
							t.Errorf("features %s, %s, %q asked, admin %v, all %v:\n%s\neach by itself:\n%s", name, expression, asked, admin, mandatory, got, want)
						}
					}
				}
			}
		}
	}
}

// describe says all of a domain, device by device.
func describe(n *Node, f *Filter, d *Domain) string {
	var lines []string
	for i := range n.List {
		text := fmt.Sprintf("%s: in use %v, shared %v", n.List[i].Object.Name, n.InUse.Test(uint(i)), n.isShared(int32(i)))
		if d.Allowed.Test(uint(i)) {
			text += " allowed"
		}
		if d.Exhausted != nil && d.Exhausted.Test(uint(i)) {
			text += " exhausted"
		}
		if slices.Contains(d.Mandatory, int32(i)) {
			text += " mandatory"
		}
		if d.Stops != nil && d.Stops.Test(uint(i)) {
			text += " " + n.Error(context.Background(), f, int32(i)).Error()
		}
		if use := d.Uses[int32(i)]; use != nil {
			text += spelled(&Judgement{Use: use})
		}
		lines = append(lines, text)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func filterOf(e *Evaluator, terms Terms) (*Filter, error) {
	var key memo.Key
	selection := terms.AppendKey(&key)
	return e.Filter(&terms, key.Bytes[:selection])
}

// Results for the devices of a node are cached with them, unless the memory is off.
func TestDevicesAreKept(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	snapshot := cluster.Build(pool.Gates{PartitionableDevices: true}, []*resourceapi.ResourceSlice{variedSlice(node.Name)})
	view, err := snapshot.GatherPools(node)
	if err != nil {
		t.Fatal(err)
	}
	for _, off := range []bool{false, true} {
		e := NewEvaluator(Features{PartitionableDevices: true}, cel.NewCache(8), memo.Bounds{Off: off, Results: 64, Selections: 8, Problems: 8})
		var first, second Node
		state := cluster.NewState(snapshot)
		first.Begin(e, view, state, new(slab.Sets))
		second.Begin(e, view, state, new(slab.Sets))
		if kept := first.Devices == second.Devices; kept == off {
			t.Errorf("off %v: kept %v", off, kept)
		}
	}
}
