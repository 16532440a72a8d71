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
	"github.com/dray-project/dray/cmd/dray/internal/render"
)

// The states of devices. All but the last two are words of dray devices.
const (
	Free     = "free"
	Used     = "used"
	Shared   = "shared"   // held, and more shares may be had
	Blocked  = "blocked"  // free, but counters are exhausted by siblings
	Unusable = "unusable" // of a pool that cannot be used
	Tainted  = "tainted"  // free, with a taint that keeps claims away
	// Unreached devices are free, and no node of the cluster reaches them.
	Unreached = "unreached"
)

// Pool is a pool with its devices.
type Pool struct {
	Driver string `json:"driver"`
	Name   string `json:"name"`
	// Nodes are the names of those that reach it, in the order of the cluster.
	Nodes []string `json:"nodes,omitempty"`
	// Problem says why nothing can be allocated from it.
	Problem string `json:"problem,omitempty"`
	Sets    []Set  `json:"sets,omitempty"`
	// Devices are in the order of the pool.
	Devices []Device `json:"devices"`
}

// Set is a counter set: a whole that devices are parts of.
type Set struct {
	Name     string   `json:"name"`
	Counters []Amount `json:"counters"`
	// Whole is the index of the device that draws on all there is of each counter, -1 if there is none.
	Whole int `json:"whole"`
}

// Amount is what is left of a counter or capacity. Part is left divided by total, from 0 to 1.
type Amount struct {
	Name  string  `json:"name"`
	Left  string  `json:"left"`
	Total string  `json:"total"`
	Part  float64 `json:"part"`
}

// Shape is what devices have in common.
type Shape struct {
	// Product is what the device calls itself, or the driver.
	Product    string            `json:"product"`
	Attributes map[string]string `json:"attributes,omitempty"`
	// Capacity is in total, by name.
	Capacity map[string]string `json:"capacity,omitempty"`
	// Shared is set for devices that several claims can hold.
	Shared bool `json:"shared,omitempty"`
}

// Device is a device of the map.
type Device struct {
	Name  string `json:"name"`
	Shape int    `json:"shape"` // index of Picture.Shapes
	State string `json:"state"`
	// Own are attributes that hardly two devices agree in, such as serial numbers.
	Own map[string]string `json:"own,omitempty"`
	// Sets are indexes of Pool.Sets that it draws on.
	Sets   []int    `json:"sets,omitempty"`
	Taints []string `json:"taints,omitempty"`
	// Capacity is what is left of a device that can be shared.
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

// stateOf is the word of dray devices, but for free devices that nobody gets for another reason.
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

// wholeOf finds the device that draws on all there is of each counter of a set.
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

// shapes keeps one of equal shapes.
type shapes struct {
	list  []Shape
	index map[string]int
	own   map[resourceapi.QualifiedName]bool // attributes that are no part of shapes
}

// more is a copy that goes on with the same indexes; nil if there is so much in it that is not used any more that it is better
// to start anew.
func (s *shapes) more() *shapes {
	const most = 4096
	if len(s.list) > most {
		return nil
	}
	return &shapes{list: slices.Clone(s.list), index: maps.Clone(s.index), own: s.own}
}

// manyValues is from how many values on an attribute is no part of shapes.
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
					values[name][render.AttributeValue(value)] = true
					s.own[name] = len(values[name]) >= manyValues
				}
			}
		}
	}
	return s
}

// of returns the index of a device's shape, and the attributes that are its own.
func (s *shapes) of(driver string, device *cluster.DeviceState) (at int, own map[string]string) {
	shape := Shape{Product: driver, Attributes: make(map[string]string, len(device.Attributes)), Shared: device.Shared}
	for name, value := range device.Attributes {
		text := render.AttributeValue(value)
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
	if err != nil { // texts can be written
		key = []byte(driver + "/" + device.Name)
	}
	at, known := s.index[string(key)]
	if !known {
		at = len(s.list)
		s.list, s.index[string(key)] = append(s.list, shape), at
	}
	return at, own
}

// productNames are the attributes by which devices say what they are, whatever their domain, the best first.
var productNames = []string{"profile", "productName", "product", "model", "deviceType", "type"}

// productOf is the value of the first attribute that says what a device is; empty if there is none.
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
