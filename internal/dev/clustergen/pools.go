// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// pool is one pool under construction: slices without object names yet.
type pool struct {
	driver, name string
	generation   int64
	counterSets  int
	devices      int // made so far, for names
	slices       []*resourceapi.ResourceSlice
}

func (g *generator) addPools() {
	var pools []*pool
	for _, driver := range g.drivers {
		// Pools of two drivers may have the same name.
		g.poolsMade = 0
		for range 1 + g.intn(g.plan.poolsPerDriver) {
			pools = append(pools, g.newPools(driver)...)
		}
	}
	bad := g.intn(len(pools))
	for i, p := range pools {
		if i == bad {
			g.spoil(p)
		}
		g.publish(p)
	}
}

// newPools draws how the devices of a driver reach the nodes. Only node-local
// devices need one pool per node.
func (g *generator) newPools(driver string) []*pool {
	if g.plan.multiHost && g.chance(0.6) {
		return []*pool{g.multiHostPool(driver)}
	}
	switch n := g.intn(10); {
	case n < 4:
		return g.localPools(driver)
	case n < 6:
		return []*pool{g.spreadPool(driver)}
	case n < 8:
		return []*pool{g.sharedPool(driver, func(spec *resourceapi.ResourceSliceSpec) { spec.AllNodes = ptr.To(true) })}
	case n < 9:
		nodes := g.nodeSelector()
		return []*pool{g.sharedPool(driver, func(spec *resourceapi.ResourceSliceSpec) { spec.NodeSelector = nodes.DeepCopy() })}
	}
	return []*pool{g.perDevicePool(driver)}
}

func (g *generator) newPool(driver, name string) *pool {
	p := &pool{driver: driver, name: name, generation: 1 + int64(g.intn(3))}
	if g.plan.counters && g.chance(0.7) {
		p.counterSets = 1 + g.intn(2)
	}
	return p
}

func (g *generator) poolName() string {
	g.poolsMade++
	return fmt.Sprintf("pool-%c%d", 'a'+rune(g.intn(3)), g.poolsMade)
}

func (g *generator) localPools(driver string) []*pool {
	var pools []*pool
	prefix := g.poolName()
	for _, node := range g.c.Nodes {
		if node.Name != g.c.Node && g.chance(0.6) {
			continue
		}
		p := g.newPool(driver, prefix+"-"+node.Name)
		g.fill(p, 1+g.intn(2), func(spec *resourceapi.ResourceSliceSpec) { spec.NodeName = ptr.To(node.Name) })
		pools = append(pools, p)
	}
	return pools
}

// spreadPool is one pool with slices on several nodes, so that a node sees part of it.
func (g *generator) spreadPool(driver string) *pool {
	p := g.newPool(driver, g.poolName())
	reach := func(node string) func(*resourceapi.ResourceSliceSpec) {
		return func(spec *resourceapi.ResourceSliceSpec) { spec.NodeName = ptr.To(node) }
	}
	if p.counterSets > 0 {
		g.addCounters(p, reach(g.c.Nodes[g.intn(len(g.c.Nodes))].Name))
	}
	sameNames := g.chance(0.2)
	for _, node := range g.c.Nodes {
		if sameNames {
			p.devices = 0
		}
		g.addDevices(p, reach(node.Name))
	}
	return p
}

func (g *generator) sharedPool(driver string, reach func(*resourceapi.ResourceSliceSpec)) *pool {
	p := g.newPool(driver, g.poolName())
	g.fill(p, 1+g.intn(2), reach)
	return p
}

func (g *generator) fill(p *pool, slices int, reach func(*resourceapi.ResourceSliceSpec)) {
	if p.counterSets > 0 {
		g.addCounters(p, reach)
	}
	for range slices {
		g.addDevices(p, reach)
	}
}

func (g *generator) addCounters(p *pool, reach func(*resourceapi.ResourceSliceSpec)) {
	slice := g.counterSlice(p.counterSets)
	reach(&slice.Spec)
	p.slices = append(p.slices, slice)
}

func (g *generator) addDevices(p *pool, reach func(*resourceapi.ResourceSliceSpec)) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{}
	reach(&slice.Spec)
	for range g.deviceCount() {
		device := g.device(p.driver, p.devices)
		if p.counterSets > 0 && g.chance(0.85) {
			g.consume(&device, p.counterSets)
		}
		p.devices++
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	if g.plan.hard {
		g.makeAlike(slice.Spec.Devices)
	}
	if g.plan.skipOperations && g.chance(0.5) {
		slice.Spec.SkipNodeOperations = pick(g,
			[]resourceapi.SkipNodeOperation{"*"},
			[]resourceapi.SkipNodeOperation{"NodeUnprepareResources"},
			[]resourceapi.SkipNodeOperation{"NodePrepareResources", "NodeUnprepareResources"})
	}
	p.slices = append(p.slices, slice)
	return slice
}

func (g *generator) deviceCount() int {
	switch {
	case g.plan.crowded:
		return 15 + g.intn(7)
	case g.plan.trouble == noTrouble && g.chance(0.01):
		return 0
	case g.plan.hard:
		return 4 + g.intn(4)
	}
	return 2 + g.intn(3)
}

// makeAlike gives some devices the content of the one before.
func (g *generator) makeAlike(devices []resourceapi.Device) {
	for i := 1; i < len(devices); i++ {
		if g.chance(0.5) {
			name := devices[i].Name
			devices[i] = *devices[i-1].DeepCopy()
			devices[i].Name = name
		}
	}
}

// nodeSelector selects by label or by name; it may miss the node of the case.
func (g *generator) nodeSelector() *corev1.NodeSelector {
	var term corev1.NodeSelectorTerm
	if g.chance(0.8) {
		term.MatchExpressions = append(term.MatchExpressions, g.labelRequirement())
	}
	if g.chance(0.3) {
		term.MatchExpressions = append(term.MatchExpressions, g.labelRequirement())
	}
	if len(term.MatchExpressions) == 0 || g.chance(0.1) {
		term.MatchFields = []corev1.NodeSelectorRequirement{{
			Key: "metadata.name", Operator: corev1.NodeSelectorOpIn,
			Values: []string{g.c.Nodes[g.intn(len(g.c.Nodes))].Name},
		}}
	}
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}
}

func (g *generator) labelRequirement() corev1.NodeSelectorRequirement {
	return pick(g,
		corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"east"}},
		corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"east", "west"}},
		corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"west", "east"}},
		corev1.NodeSelectorRequirement{Key: "rack", Operator: corev1.NodeSelectorOpExists},
		corev1.NodeSelectorRequirement{Key: "rack", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"r2"}},
	)
}
