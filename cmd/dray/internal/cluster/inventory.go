// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/pools"
)

// PoolState is a pool and what is left of it.
type PoolState struct {
	Driver     string `json:"driver"`
	Pool       string `json:"pool"`
	Generation int64  `json:"generation"`
	// Slices is how many slices of the generation there are, SliceCount how many
	// there should be.
	Slices     int64 `json:"slices"`
	SliceCount int64 `json:"resourceSliceCount"`
	// Nodes are those which reach the pool, in the order of the cluster.
	Nodes []string `json:"nodes"`
	// Incomplete and Invalid say why nothing can be allocated from the pool.
	Incomplete  string            `json:"incomplete,omitempty"`
	Invalid     string            `json:"invalid,omitempty"`
	CounterSets []CounterSetState `json:"counterSets,omitempty"`
	Devices     []DeviceState     `json:"devices"`
}

// CounterSetState is a counter set and what its devices in use leave of it.
type CounterSetState struct {
	Name     string        `json:"name"`
	Counters []AmountState `json:"counters"`
}

// AmountState is a counter or capacity. Left may be negative if more is in use than
// there is.
type AmountState struct {
	Name  string            `json:"name"`
	Left  resource.Quantity `json:"left"`
	Total resource.Quantity `json:"total"`
}

// DeviceState is a device and who has it.
type DeviceState struct {
	// Object is the device as published, with taints of DeviceTaintRules.
	Object *resourceapi.Device `json:"-"`
	// Elsewhere is set if the pool reaches the node, but the device does not.
	Elsewhere bool `json:"-"`
	// Unreached is set by Inventory if none of the nodes reaches the device.
	Unreached bool `json:"-"`

	seen *cel.Device // by selectors, nil before the first one
	// matched has answers to some expressions.
	matched []matched

	Name       string                                                    `json:"name"`
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	// Capacity has what is left only for devices that can be shared.
	Capacity []AmountState             `json:"capacity,omitempty"`
	Shared   bool                      `json:"allowMultipleAllocations,omitempty"`
	Taints   []resourceapi.DeviceTaint `json:"taints,omitempty"`
	Holders  []HolderState             `json:"heldBy,omitempty"`
	// Blocked says which counters are exhausted, so that a free device cannot be had.
	Blocked string `json:"blockedBy,omitempty"`
}

// HolderState is a claim that holds a device, once per request.
type HolderState struct {
	Claim   string `json:"claim"` // namespace/name
	Request string `json:"request"`
	// Consumers are the pods that the claim is reserved for.
	Consumers []string `json:"reservedFor,omitempty"`
}

// Inventory lists the pools that nodes reach, by driver and name. With a node, only
// what this node reaches is listed. The error is about a node selector of a slice.
func (c *Cluster) Inventory(node *corev1.Node) ([]PoolState, error) {
	reached, err := c.reach(node)
	if err != nil {
		return nil, err
	}
	var states []PoolState
	for pool := range c.Ledger.State().Snapshot().Pools() {
		r := reached[pool.ID()]
		if r == nil && node != nil {
			continue
		}
		if r == nil {
			r = &reach{}
		}
		states = append(states, c.poolState(pool, r, node != nil))
	}
	return states, nil
}

// Reached lists the pools from which devices can be allocated on the node, with all their
// devices: those which do not reach the node are marked. Others may hold the result, too:
// it is read-only.
func (c *Cluster) Reached(node *corev1.Node) ([]*PoolState, error) {
	view, err := c.Ledger.State().Snapshot().GatherPools(node)
	if err != nil {
		return nil, err
	}
	var states []*PoolState
	for seen := range view.Pools() {
		if !seen.Usable() {
			continue
		}
		state := c.wholePool(seen.Pool())
		if seen.Len() < len(state.Devices) {
			state = state.seenBy(seen)
		}
		states = append(states, state)
	}
	return states, nil
}

// wholePool is the state of a usable pool with all its devices. It is remembered until
// something else of the pool is in use.
func (c *Cluster) wholePool(pool pools.Pool) *PoolState {
	usage := c.Ledger.State().Pool(pool)
	known, found := c.wholePools[pool.ID()]
	if !found || known.usage != usage && !(known.usage.Idle() && usage.Idle()) {
		state := c.poolState(pool, &reach{}, false)
		known = wholePool{usage, &state}
		c.wholePools[pool.ID()] = known
	}
	return known.state
}

// wholePool is a PoolState and the usage that it is about.
type wholePool struct {
	usage pools.PoolUsage
	state *PoolState
}

// seenBy is a copy in which the devices are marked that do not reach the node of a view.
func (s *PoolState) seenBy(view pools.PoolView) *PoolState {
	here := make(map[pools.Device]bool, view.Len())
	for device := range view.Devices() {
		here[device] = true
	}
	seen := *s
	seen.Devices = slices.Clone(s.Devices)
	i := 0
	for device := range view.Pool().Devices() {
		seen.Devices[i].Elsewhere = !here[device]
		i++
	}
	return &seen
}

// TaintRules lists the names of the DeviceTaintRules that add a taint to the device.
func (c *Cluster) TaintRules(driver, pool, device string, taint *resourceapi.DeviceTaint) []string {
	var names []string
	for _, rule := range c.objects.TaintRules {
		s, t := rule.Spec.DeviceSelector, &rule.Spec.Taint
		if s != nil && t.Key == taint.Key && t.Value == taint.Value && t.Effect == taint.Effect &&
			(s.Driver == nil || *s.Driver == driver) && (s.Pool == nil || *s.Pool == pool) && (s.Device == nil || *s.Device == device) {
			names = append(names, rule.Name)
		}
	}
	return names
}

// ParseTaint reads KEY[=VALUE]:EFFECT.
func ParseTaint(text string) (resourceapi.DeviceTaint, error) {
	rest, effect, found := strings.Cut(text, ":")
	key, value, _ := strings.Cut(rest, "=")
	taint := resourceapi.DeviceTaint{Key: key, Value: value, Effect: resourceapi.DeviceTaintEffect(effect)}
	switch {
	case !found || key == "":
		return taint, fmt.Errorf("%q: want KEY[=VALUE]:EFFECT", text)
	case taint.Effect != resourceapi.DeviceTaintEffectNoSchedule && taint.Effect != resourceapi.DeviceTaintEffectNoExecute && taint.Effect != resourceapi.DeviceTaintEffectNone:
		return taint, fmt.Errorf("%q: unknown effect %q: want NoSchedule, NoExecute or None", text, effect)
	}
	return taint, nil
}

// Slices are the ResourceSlices as read.
func (c *Cluster) Slices() []*resourceapi.ResourceSlice { return c.objects.Slices }

// reach is what nodes see of one pool.
type reach struct {
	nodes   []string
	invalid string
	devices map[pools.Device]bool
}

// reach looks from the node, or from all nodes.
func (c *Cluster) reach(only *corev1.Node) (map[pools.PoolID]*reach, error) {
	nodes := c.Nodes
	if only != nil {
		nodes = []*corev1.Node{only}
	}
	reached := make(map[pools.PoolID]*reach)
	for _, node := range nodes {
		view, err := c.Ledger.State().Snapshot().GatherPools(node)
		if err != nil {
			return nil, err
		}
		for seen := range view.Pools() {
			id := seen.Pool().ID()
			if reached[id] == nil {
				reached[id] = &reach{devices: make(map[pools.Device]bool)}
			}
			reached[id].add(node.Name, seen)
		}
	}
	return reached, nil
}

func (r *reach) add(node string, view pools.PoolView) {
	r.nodes = append(r.nodes, node)
	if r.invalid == "" {
		r.invalid = view.Invalid()
	}
	for device := range view.Devices() {
		r.devices[device] = true
	}
}

func (c *Cluster) poolState(pool pools.Pool, r *reach, onlyReached bool) PoolState {
	expected, present := pool.SliceCount()
	state := PoolState{
		Driver: pool.ID().Driver, Pool: pool.ID().Name,
		Generation: pool.Generation(), Slices: present, SliceCount: expected,
		Nodes: r.nodes, Incomplete: pool.Incomplete(), Invalid: r.invalid,
	}
	if state.Invalid == "" {
		state.Invalid = pool.Invalid()
	}
	usage := c.Ledger.State().Pool(pool)
	left := usage.CounterSets()
	for i, set := range pool.CounterSets() {
		counters := make([]AmountState, len(set.Counters))
		for j, counter := range set.Counters {
			counters[j] = AmountState{counter.Name, left[i].Counters[j].Value, counter.Value}
		}
		state.CounterSets = append(state.CounterSets, CounterSetState{set.Name, counters})
	}
	// Devices of a pool that cannot be used are not part of any node's view.
	unusable := state.Incomplete != "" || state.Invalid != ""
	for device := range pool.Devices() {
		if !onlyReached || unusable || r.devices[device] {
			one := c.deviceState(usage, device)
			one.Unreached = !r.devices[device]
			state.Devices = append(state.Devices, one)
		}
	}
	state.block()
	return state
}

func (c *Cluster) deviceState(usage pools.PoolUsage, device pools.Device) DeviceState {
	object := device.Object()
	state := DeviceState{
		Object:     object,
		Name:       object.Name,
		Attributes: object.Attributes,
		Shared:     ptr.Deref(object.AllowMultipleAllocations, false),
		Taints:     object.Taints,
	}
	for _, name := range slices.Sorted(maps.Keys(object.Capacity)) {
		total := object.Capacity[name].Value
		left := total.DeepCopy()
		left.Sub(usage.Consumed(device, name))
		state.Capacity = append(state.Capacity, AmountState{string(name), left, total})
	}
	for _, holder := range c.Ledger.State().Holders(device.ID()) {
		state.Holders = append(state.Holders, HolderState{holder.String(), holder.Request, c.consumers(holder)})
	}
	return state
}

func (c *Cluster) consumers(holder pools.ClaimRef) []string {
	claim := c.claims.Claim(types.NamespacedName{Namespace: holder.Namespace, Name: holder.Name})
	if claim == nil {
		return nil
	}
	names := make([]string, len(claim.Status.ReservedFor))
	for i, consumer := range claim.Status.ReservedFor {
		names[i] = consumer.Name
	}
	return names
}
