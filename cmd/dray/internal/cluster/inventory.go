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

// PoolState is a pool and what is free of it.
type PoolState struct {
	Driver     string `json:"driver"`
	Pool       string `json:"pool"`
	Generation int64  `json:"generation"`
	// Slices is the number of slices of the generation. SliceCount is how many the pool should
	// have.
	Slices     int64 `json:"slices"`
	SliceCount int64 `json:"resourceSliceCount"`
	// Nodes are the nodes that reach the pool, in the order of the cluster.
	Nodes []string `json:"nodes"`
	// Incomplete and Invalid say why nothing can be allocated from the pool.
	Incomplete  string            `json:"incomplete,omitempty"`
	Invalid     string            `json:"invalid,omitempty"`
	CounterSets []CounterSetState `json:"counterSets,omitempty"`
	Devices     []DeviceState     `json:"devices"`
}

// CounterSetState is a counter set and what is left of it.
type CounterSetState struct {
	Name     string        `json:"name"`
	Counters []AmountState `json:"counters"`
}

// AmountState is a counter or capacity. Left is negative if more is in use than exists.
type AmountState struct {
	Name  string            `json:"name"`
	Left  resource.Quantity `json:"left"`
	Total resource.Quantity `json:"total"`
}

// DeviceState is a device and the claims that hold it.
type DeviceState struct {
	// Object is the device as published, with taints of DeviceTaintRules.
	Object *resourceapi.Device `json:"-"`
	// Elsewhere is set if the pool reaches the node, but the device does not.
	Elsewhere bool `json:"-"`
	// Unreached is set by Inventory if none of the nodes reaches the device.
	Unreached bool `json:"-"`

	seen *cel.Device // for selectors; nil before the first one
	// matched caches the results of some expressions.
	matched []matched

	Name       string                                                    `json:"name"`
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	// Capacity has the amounts that are left, only for devices that can be shared.
	Capacity []AmountState             `json:"capacity,omitempty"`
	Shared   bool                      `json:"allowMultipleAllocations,omitempty"`
	Taints   []resourceapi.DeviceTaint `json:"taints,omitempty"`
	Holders  []HolderState             `json:"heldBy,omitempty"`
	// Blocked names the exhausted counters because of which a free device cannot be allocated.
	Blocked string `json:"blockedBy,omitempty"`
}

// HolderState is a request of a claim that holds a device.
type HolderState struct {
	Claim   string `json:"claim"` // namespace/name
	Request string `json:"request"`
	// Consumers are the pods that the claim is reserved for.
	Consumers []string `json:"reservedFor,omitempty"`
}

// Inventory returns the pools that nodes reach, sorted by driver and name. With a node, it returns
// only what this node reaches. It returns an error for an invalid node selector of a slice.
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

// Reached returns the pools from which devices can be allocated on the node, with all their
// devices. Devices that do not reach the node are marked. The result may be shared, so it is
// read-only.
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

// wholePool returns the state of a usable pool with all its devices. It is cached until the usage
// of the pool changes.
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

// wholePool is a cached PoolState, and the usage that it shows.
type wholePool struct {
	usage pools.PoolUsage
	state *PoolState
}

// seenBy returns a copy in which devices are marked that do not reach the node of a view.
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

// ParseTaint parses KEY[=VALUE]:EFFECT.
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

// Slices returns the ResourceSlices as they were read.
func (c *Cluster) Slices() []*resourceapi.ResourceSlice { return c.objects.Slices }

// reach is the view of nodes on one pool.
type reach struct {
	nodes   []string
	invalid string
	devices map[pools.Device]bool
}

// reach returns the view of one node, or of all nodes.
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
	// Devices of an unusable pool are in no node's view.
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
