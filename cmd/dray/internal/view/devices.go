// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/cmd/dray/internal/cluster"
	"github.com/dray-project/dray/cmd/dray/internal/diagnosis"
)

// States of devices. All but the last two are those of dray devices.
const (
	Free     = "free"
	Used     = "used"
	Shared   = "shared"   // held, but can be shared with another claim
	Blocked  = "blocked"  // free, but a counter that it consumes is exhausted
	Unusable = "unusable" // its pool cannot be used
	Tainted  = "tainted"  // free, with a taint that prevents allocation
	// Unreached devices are free, but no node reaches them.
	Unreached = "unreached"
)

// Pool is a pool with its devices.
type Pool struct {
	Driver string `json:"driver"`
	Name   string `json:"name"`
	// Nodes are the names of nodes that reach the pool, in the order of the cluster.
	Nodes []string `json:"nodes,omitempty"`
	// Problem is why no device can be allocated from the pool, or empty.
	Problem string `json:"problem,omitempty"`
	Sets    []Set  `json:"sets,omitempty"`
	// Devices are in the order of the pool.
	Devices []Device `json:"devices"`
}

// Set is a counter set, which partitions of one device share.
type Set struct {
	Name     string   `json:"name"`
	Counters []Amount `json:"counters"`
	// Whole is the index of the device that consumes each counter completely, -1 if there is none.
	Whole int `json:"whole"`
}

// Amount is the free amount of a counter or capacity. Part is Left divided by Total, from 0 to 1.
type Amount struct {
	Name  string  `json:"name"`
	Left  string  `json:"left"`
	Total string  `json:"total"`
	Part  float64 `json:"part"`
}

// Shape has what similar devices have in common.
type Shape struct {
	// Product is the product name in the device's attributes, or the driver.
	Product    string            `json:"product"`
	Attributes map[string]string `json:"attributes,omitempty"`
	// Capacity has total amounts by name.
	Capacity map[string]string `json:"capacity,omitempty"`
	// Shared says that several claims can hold the device.
	Shared bool `json:"shared,omitempty"`
}

// Device is a device of the map.
type Device struct {
	Name  string `json:"name"`
	Shape int    `json:"shape"` // index of Picture.Shapes
	State string `json:"state"`
	// Own has attributes whose values are almost unique, such as serial numbers.
	Own map[string]string `json:"own,omitempty"`
	// Sets has indexes in Pool.Sets of the counter sets that the device consumes.
	Sets   []int    `json:"sets,omitempty"`
	Taints []string `json:"taints,omitempty"`
	// Capacity has the free amounts of a device that can be shared.
	Capacity  []Amount `json:"capacity,omitempty"`
	Held      []Held   `json:"held,omitempty"`
	BlockedBy string   `json:"blockedBy,omitempty"`
}

// Held is a claim that holds a device for a request.
type Held struct {
	Claim   string `json:"claim"` // namespace/name
	Request string `json:"request"`

	namespace, name string
	pods            []string
}

func newPool(state *cluster.PoolState, shapes *shapes) Pool {
	pool := Pool{Driver: state.Driver, Name: state.Pool, Nodes: state.Nodes, Problem: state.Incomplete, Devices: make([]Device, len(state.Devices))}
	if pool.Problem == "" {
		pool.Problem = state.Invalid
	}
	for _, set := range state.CounterSets {
		pool.Sets = append(pool.Sets, Set{Name: set.Name, Counters: amounts(set.Counters), Whole: wholeOf(state, &set)})
	}
	for i := range state.Devices {
		pool.Devices[i] = newDevice(state, &state.Devices[i], shapes)
	}
	return pool
}

func newDevice(pool *cluster.PoolState, state *cluster.DeviceState, shapes *shapes) Device {
	device := Device{Name: state.Name, State: stateOf(pool, state), BlockedBy: state.Blocked}
	device.Shape, device.Own = shapes.of(pool.Driver, state)
	for i := range state.Taints {
		device.Taints = append(device.Taints, diagnosis.TaintText(&state.Taints[i]))
	}
	if state.Shared {
		device.Capacity = amounts(state.Capacity)
	}
	for _, use := range state.Object.ConsumesCounters {
		at := slices.IndexFunc(pool.CounterSets, func(set cluster.CounterSetState) bool { return set.Name == use.CounterSet })
		if at >= 0 && !slices.Contains(device.Sets, at) {
			device.Sets = append(device.Sets, at)
		}
	}
	for _, holder := range state.Holders {
		namespace, name, _ := strings.Cut(holder.Claim, "/")
		device.Held = append(device.Held, Held{holder.Claim, holder.Request, namespace, name, holder.Consumers})
	}
	return device
}

// stateOf returns the state of dray devices, but distinguishes free devices that cannot be
// allocated for another reason.
func stateOf(pool *cluster.PoolState, device *cluster.DeviceState) string {
	state := pool.State(device)
	switch {
	case state != Free:
		return state
	case device.Unreached:
		return Unreached
	case slices.ContainsFunc(device.Taints, func(t resourceapi.DeviceTaint) bool { return t.Effect != resourceapi.DeviceTaintEffectNone }):
		return Tainted
	}
	return state
}

// wholeOf returns the index of the device that consumes each counter of a set completely, or -1.
func wholeOf(pool *cluster.PoolState, set *cluster.CounterSetState) int {
	return slices.IndexFunc(pool.Devices, func(device cluster.DeviceState) bool {
		for _, use := range device.Object.ConsumesCounters {
			if use.CounterSet != set.Name {
				continue
			}
			return !slices.ContainsFunc(set.Counters, func(a cluster.AmountState) bool {
				needs, consumed := use.Counters[a.Name]
				return !consumed || needs.Value.Cmp(a.Total) != 0
			})
		}
		return false
	})
}

func amounts(states []cluster.AmountState) []Amount {
	list := make([]Amount, len(states))
	for i, a := range states {
		list[i] = Amount{Name: a.Name, Left: a.Left.String(), Total: a.Total.String(), Part: part(a.Left, a.Total)}
	}
	return list
}

func part(left, total resource.Quantity) float64 {
	whole := total.AsApproximateFloat64()
	if whole <= 0 {
		return 0
	}
	return min(1, max(0, left.AsApproximateFloat64()/whole))
}

// shapes has the distinct shapes of devices.
type shapes struct {
	list  []Shape
	index map[string]int
	own   map[resourceapi.QualifiedName]bool // almost unique attributes, which are not part of shapes
}

// extend returns a copy to which shapes can be added. It returns nil if there are so many shapes,
// perhaps unused ones, that a new list is better.
func (s *shapes) extend() *shapes {
	const most = 4096
	if len(s.list) > most {
		return nil
	}
	return &shapes{list: slices.Clone(s.list), index: maps.Clone(s.index), own: s.own}
}

// manyValues is the number of distinct values from which an attribute is not part of shapes.
const manyValues = 32

func newShapes(states []cluster.PoolState) *shapes {
	s := &shapes{list: []Shape{}, index: make(map[string]int), own: make(map[resourceapi.QualifiedName]bool)}
	values := make(map[resourceapi.QualifiedName]map[string]bool)
	for i := range states {
		for k := range states[i].Devices {
			for name, value := range states[i].Devices[k].Attributes {
				if values[name] == nil {
					values[name] = make(map[string]bool)
				}
				if !s.own[name] {
					values[name][diagnosis.AttributeValue(value)] = true
					s.own[name] = len(values[name]) >= manyValues
				}
			}
		}
	}
	return s
}

// of returns the index of a device's shape, and the attributes that are not part of it.
func (s *shapes) of(driver string, device *cluster.DeviceState) (at int, own map[string]string) {
	shape := Shape{Product: driver, Attributes: make(map[string]string, len(device.Attributes)), Shared: device.Shared}
	for name, value := range device.Attributes {
		text := diagnosis.AttributeValue(value)
		if !s.own[name] {
			shape.Attributes[string(name)] = text
			continue
		}
		if own == nil {
			own = make(map[string]string)
		}
		own[string(name)] = text
	}
	if product := productOf(shape.Attributes); product != "" {
		shape.Product = product
	}
	if len(device.Capacity) > 0 {
		shape.Capacity = make(map[string]string, len(device.Capacity))
	}
	for _, a := range device.Capacity {
		shape.Capacity[a.Name] = a.Total.String()
	}
	key, err := json.Marshal(shape)
	if err != nil { // strings can always be encoded
		key = []byte(driver + "/" + device.Name)
	}
	at, known := s.index[string(key)]
	if !known {
		at = len(s.list)
		s.list, s.index[string(key)] = append(s.list, shape), at
	}
	return at, own
}

// productNames are names of attributes with the product, in any domain, in the order of preference.
var productNames = []string{"profile", "productName", "product", "model", "deviceType", "type"}

// productOf returns the value of the first product attribute, or an empty string.
func productOf(attributes map[string]string) string {
	for _, wanted := range productNames {
		for _, name := range slices.Sorted(maps.Keys(attributes)) {
			if name == wanted || strings.HasSuffix(name, "/"+wanted) {
				return attributes[name]
			}
		}
	}
	return ""
}
