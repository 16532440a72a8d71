// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/dev/fieldworld"
	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/reads"
	"github.com/dray-project/dray/pools"
)

// fieldUser is an Asker, with all parts of its keys.
var fieldUser = fieldworld.User{
	Open: openForFields,
	Omissions: slices.Concat(
		keys.Omissions(&keys.Device), keys.Omissions(&keys.Taint), keys.Omissions(&keys.Pool), keys.Omissions(&keys.Node), keys.Omissions(&keys.Capacity),
		keys.Omissions(&keys.Attribute), keys.Omissions(&Selected), keys.Omissions(&Asked), keys.Omissions(&Classed)),
	Sampled: 400, All: os.Getenv("DRAY_FIELDS") == "all",
}

// The keys of an Asker cover each row of the table that they have to, and no other.
func TestKeysCoverTheTable(t *testing.T) {
	fieldUser.Covered(t, map[keys.Row]string{
		{Root: reads.Slice, Path: "Spec.Driver"}:                  "Inventory.headKey writes it; pools of several nodes are known by themselves",
		{Root: reads.Slice, Path: "Spec.Pool.ResourceSliceCount"}: "a pool that is not complete is unusable: Inventory.headKey",
	})
}

// Answers of an Asker depend on each field as the table says.
func TestEachFieldDecidesAsTheTableSays(t *testing.T) { fieldUser.Judge(t) }

// fieldPrograms are shared by all askers of these tests: what is compiled depends on nothing else.
var fieldPrograms = cel.NewCache(manyPrograms)

// fieldCluster is what an Asker is asked about.
type fieldCluster struct {
	asker   *Asker
	classes *resourceapi.DeviceClass // with which the asker was made
	around  *Surroundings
	nodes   map[string]*Inventory
	uses    map[string]Uses
}

func openForFields(t *testing.T, sides ...*fieldworld.Side) fieldworld.Ask {
	t.Helper()
	features := allocator.AllFeatures()
	features.DeviceBindingAndStatus = !sides[0].InUse
	asker, err := New(Options{Features: features, Budget: allocator.DefaultBudget, Bounds: usualBounds, Programs: fieldPrograms}, sides[0].Classes())
	if err != nil {
		t.Fatal(err)
	}
	c := &fieldCluster{asker: asker, classes: sides[0].Class, nodes: map[string]*Inventory{}, uses: map[string]Uses{}}
	var shared []*resourceapi.ResourceSlice
	for _, side := range sides {
		if c.nodes[side.Node.Name] != nil {
			continue
		}
		var own []*resourceapi.ResourceSlice
		for _, slice := range side.Slices {
			if isOwn(side, slice) {
				own = append(own, slice)
			} else {
				shared = append(shared, slice)
			}
		}
		c.nodes[side.Node.Name] = NewInventory(asker.gates, side.Node, own)
	}
	pools := NewSharedPools(asker.gates, shared)
	c.around = &Surroundings{Shared: pools, Uses: make([]Uses, len(pools.Pools))}
	for _, node := range slices.Sorted(maps.Keys(c.nodes)) {
		if sides[0].InUse {
			c.use(node)
		}
	}
	return c.ask
}

// isOwn reports whether all slices of a pool are of one node.
func isOwn(side *fieldworld.Side, of *resourceapi.ResourceSlice) bool {
	return !slices.ContainsFunc(side.Slices, func(s *resourceapi.ResourceSlice) bool {
		return PoolOf(s) == PoolOf(of) && (s.Spec.NodeName == nil || *s.Spec.NodeName != side.Node.Name)
	})
}

// use has devices of a node in use.
func (c *fieldCluster) use(node string) {
	for _, used := range fieldworld.Used(node) {
		for _, r := range used.Status.Allocation.Devices.Results {
			id, h := pools.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}, Holding{Share: r.ShareID != nil, Consumed: r.ConsumedCapacity}
			if position, found := c.nodes[node].Position(id); found {
				h.Device = position
				c.uses[node] = c.uses[node].Change([]Holding{h}, true)
			} else if held, found := c.around.Shared.Holding(id, h); found {
				c.around = c.around.Change([]SharedHolding{held}, true)
			}
		}
	}
}

func (c *fieldCluster) ask(t *testing.T, side *fieldworld.Side, claim *resourceapi.ResourceClaim) fieldworld.Answer {
	t.Helper()
	if c.classes != side.Class {
		c.asker, c.classes = c.asker.Next(side.Classes(), 1, 1), side.Class
	}
	spec := c.asker.Spec(&claim.Spec.Devices, extension.Claim{})
	question := c.asker.Question([]*Spec{spec})
	if question.Err != nil {
		return fieldworld.Answer{Devices: "error", Results: question.Err.Error()}
	}
	c.asker.Cover([]*Spec{spec})
	call, err := c.asker.NewCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inv := c.nodes[side.Node.Name]
	a, err := c.asker.About(&call, inv, inv.State(c.asker.ReadSet(), c.uses[side.Node.Name]), c.around, question)
	if err != nil {
		t.Fatal(err)
	}
	return c.answer(inv, a)
}

// answer spells an answer out. Devices that are asked for are named, as positions of two nodes may differ.
func (c *fieldCluster) answer(inv *Inventory, a *Answer) (answer fieldworld.Answer) {
	if a.Fit != Fits {
		return fieldworld.Answer{Devices: fmt.Sprint(a.Fit, " ", a.Err)}
	}
	spell := func(id pools.DeviceID, h Holding) {
		answer.Devices += fmt.Sprintf("%s=%s ", h.Request, id.Device)
		for _, name := range slices.Sorted(maps.Keys(h.Consumed)) {
			taken := h.Consumed[name]
			answer.Devices += taken.String()
		}
	}
	for _, h := range a.Own {
		spell(inv.DeviceID(h.Device), h)
	}
	for _, h := range a.Shared {
		spell(c.around.Shared.Pools[h.Pool].DeviceID(h.Device), h.Holding)
		answer.Results += fmt.Sprint(h.Binds)
	}
	for _, bound := range a.Bound {
		if answer.Results += fmt.Sprint(bound.Node); bound.Selector != nil {
			answer.Results += bound.Selector.NodeSelector.String()
		}
	}
	return answer
}
