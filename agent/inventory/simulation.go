// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdispec "tags.cncf.io/container-device-interface/specs-go"
)

// Simulation is a Source whose devices are described by a file, and live and
// fail by a script. When the file changes, it is read again, and its script begins anew.
type Simulation struct {
	SimulatedDevices

	path string
	node nodeIdentity
}

// SimulatedDevices are the devices of one node, and what happens to them.
type SimulatedDevices struct {
	Groups []SimulatedGroup `json:"groups,omitempty"`
	Script []SimulatedEvent `json:"script,omitempty"`
}

// nodeIdentity is what tells one simulated node from the others of its kind. Its name is that of the
// pools of its devices, too.
type nodeIdentity struct {
	name  string
	index int
}

// SimulatedGroup describes devices that are alike.
type SimulatedGroup struct {
	Driver string `json:"driver"`
	// Name is that of the devices, before a dash and their number.
	Name  string `json:"name"`
	Count int    `json:"count"`
	Type  string `json:"type,omitempty"` // the device plugin's resource name

	// In attributes that are strings, {node} stands for the name of the node, {index} for its number
	// among those of its kind, and {device} for the name of the device.
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	Capacity   map[resourceapi.QualifiedName]resource.Quantity           `json:"capacity,omitempty"`
	Shares     int                                                       `json:"shares,omitempty"`
	// Taints are those that the devices have from the start.
	Taints []resourceapi.DeviceTaint `json:"taints,omitempty"`

	// Counters, if any, are what each device has for its partitions. The device
	// as a whole consumes all of them.
	Counters   map[string]resource.Quantity `json:"counters,omitempty"`
	Partitions []SimulatedPartition         `json:"partitions,omitempty"`

	// PCIBus is the number of the first device's PCI bus, if it has one; the
	// others follow. Devices are spread evenly over this many PCIe roots and
	// NUMA nodes, if these are not zero.
	PCIBus    int `json:"pciBus,omitempty"`
	PCIeRoots int `json:"pcieRoots,omitempty"`
	NUMANodes int `json:"numaNodes,omitempty"`

	// Env are environment variables of containers that have the device, in
	// which {device} stands for its name.
	Env []string `json:"env,omitempty"`

	// Data and Network are what users of a device are told. {device} stands for its
	// name in values of Data and in the names of interfaces.
	Data    map[string]string              `json:"data,omitempty"`
	Network *resourceapi.NetworkDeviceData `json:"network,omitempty"`
}

// SimulatedPartition describes parts into which a device can be divided.
type SimulatedPartition struct {
	// Name is that of the parts, between the device's name and their number.
	Name       string                                                    `json:"name"`
	Count      int                                                       `json:"count"`
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	Capacity   map[resourceapi.QualifiedName]resource.Quantity           `json:"capacity,omitempty"`
	Counters   map[string]resource.Quantity                              `json:"counters"` // what each part consumes
}

// SimulatedEvent is something that happens to a device and its partitions, or to a node.
// The last event of a device, and the last of a node, says how it is.
type SimulatedEvent struct {
	// At is the time since the simulation started. Events are in its order.
	At metav1.Duration `json:"at"`
	// Node is the name of the one node of a kind that it happens to; empty: to all.
	Node string `json:"node,omitempty"`
	// Device is the name of a device, with all but NotReady, Silent and Ready.
	Device string `json:"device,omitempty"`
	// One of these is set.
	Fail    *SimulatedFailure        `json:"fail,omitempty"`
	Taint   *resourceapi.DeviceTaint `json:"taint,omitempty"`
	Recover bool                     `json:"recover,omitempty"` // from Fail and Taint
	Remove  bool                     `json:"remove,omitempty"`
	Add     bool                     `json:"add,omitempty"` // what was removed
	// NotReady, Silent and Ready are for nodes that dray-agent simulates. Others take no notice of them.
	NotReady *SimulatedNodeFailure `json:"notReady,omitempty"`
	Silent   bool                  `json:"silent,omitempty"` // nothing is written for the node: it says neither that it lives nor what it has
	Ready    bool                  `json:"ready,omitempty"`
}

// IsOfNode tells whether the event happens to the node itself, not to a device.
func (e *SimulatedEvent) IsOfNode() bool { return e.NotReady != nil || e.Silent || e.Ready }

// SimulatedFailure is how a device becomes unhealthy.
type SimulatedFailure struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Evict   bool   `json:"evict,omitempty"`
}

// SimulatedNodeFailure is what the condition Ready of a node says while it is False.
type SimulatedNodeFailure struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// ReadSimulation reads the devices of the node of this name in a YAML file, which has those of
// one node, of any name, or describes several nodes. The name is that of the pools, too.
func ReadSimulation(path, node string) (*Simulation, error) {
	hardware, err := ReadHardware(path)
	if err != nil {
		return nil, err
	}
	devices, index, err := hardware.devicesOf(node)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Simulation{SimulatedDevices: *devices, path: path, node: nodeIdentity{node, index}}, nil
}

// play reports what the script says until changed gets a value, or ctx ends.
func (s *Simulation) play(ctx context.Context, changed <-chan struct{}, report func(*Inventory)) {
	started := time.Now()
	state := make(map[string]SimulatedEvent) // the last event of each device
	report(s.inventory(s.node, state))
	for _, event := range s.Script {
		if event.Node != "" && event.Node != s.node.name || event.IsOfNode() {
			continue
		}
		timer := time.NewTimer(time.Until(started.Add(event.At.Duration)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-changed:
			timer.Stop()
			return
		case <-timer.C:
		}
		state[event.Device] = event
		report(s.inventory(s.node, state))
	}
	select {
	case <-ctx.Done():
	case <-changed:
	}
}

// inventory is what a node has after the last event of each device.
func (s *SimulatedDevices) inventory(node nodeIdentity, last map[string]SimulatedEvent) *Inventory {
	out := &Inventory{}
	for i := range s.Groups {
		s.Groups[i].addTo(out, node)
	}
	out.Devices = slices.DeleteFunc(out.Devices, func(device Device) bool {
		return last[wholeOf(device)].Remove
	})
	for i := range out.Devices {
		event := last[wholeOf(out.Devices[i])]
		if failure := event.Fail; failure != nil {
			out.Devices[i].Health = Health{Unhealthy: true, Evict: failure.Evict, Reason: failure.Reason, Message: failure.Message}
		}
		if event.Taint != nil {
			out.Devices[i].Taints = append(slices.Clone(out.Devices[i].Taints), *event.Taint)
		}
	}
	return out
}

// wholeOf is the name of the device of which a device is a partition, or its own:
// counter sets have the names of whole devices.
func wholeOf(device Device) string {
	if len(device.Consumes) > 0 {
		return device.Consumes[0].CounterSet
	}
	return device.ID.Device
}

func (g *SimulatedGroup) addTo(in *Inventory, node nodeIdentity) {
	pool := node.name
	for i := range g.Count {
		name := g.Name + "-" + strconv.Itoa(i)
		whole := Device{
			ID:         ID{g.Driver, pool, name},
			Type:       g.Type,
			Attributes: node.attributes(g.Attributes, name),
			Taints:     g.Taints,
			Capacity:   capacities(g.Capacity),
			Shares:     g.Shares,
			Topology:   g.topology(i),
			Edits:      g.edits(name),
			Data:       g.described(name),
			Network:    g.networkOf(name),
		}
		if len(g.Counters) > 0 {
			whole.Consumes = []resourceapi.DeviceCounterConsumption{{CounterSet: name, Counters: counters(g.Counters)}}
			in.CounterSets = append(in.CounterSets, CounterSet{g.Driver, pool, resourceapi.CounterSet{Name: name, Counters: counters(g.Counters)}})
		}
		in.Devices = append(in.Devices, whole)
		for _, partition := range g.Partitions {
			in.Devices = append(in.Devices, partition.of(&whole, g, node)...)
		}
	}
}

func (p *SimulatedPartition) of(whole *Device, g *SimulatedGroup, node nodeIdentity) []Device {
	var out []Device
	for i := range p.Count {
		name := fmt.Sprintf("%s-%s-%d", whole.ID.Device, p.Name, i)
		out = append(out, Device{
			ID:         ID{whole.Driver, whole.Pool, name},
			Attributes: node.attributes(p.Attributes, name),
			Capacity:   capacities(p.Capacity),
			Taints:     g.Taints,
			Consumes:   []resourceapi.DeviceCounterConsumption{{CounterSet: whole.ID.Device, Counters: counters(p.Counters)}},
			Topology:   whole.Topology,
			Edits:      g.edits(name),
			Data:       g.described(name),
			Network:    g.networkOf(name),
		})
	}
	return out
}

// attributes are those of a device, with what stands for something in braces.
func (n nodeIdentity) attributes(of map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, device string) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	var out map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	for name, attribute := range of {
		if attribute.StringValue == nil || !strings.Contains(*attribute.StringValue, "{") {
			continue
		}
		if out == nil {
			out = maps.Clone(of)
		}
		text := strings.NewReplacer("{node}", n.name, "{index}", strconv.Itoa(n.index), "{device}", device).Replace(*attribute.StringValue)
		out[name] = resourceapi.DeviceAttribute{StringValue: &text}
	}
	if out == nil {
		return of
	}
	return out
}

func (g *SimulatedGroup) topology(i int) Topology {
	var out Topology
	if g.PCIBus > 0 {
		out.PCIBusID = fmt.Sprintf("0000:%02x:00.0", g.PCIBus+i)
	}
	if g.PCIeRoots > 0 {
		out.PCIeRoot = fmt.Sprintf("pci0000:%02x", i*g.PCIeRoots/g.Count)
	}
	if g.NUMANodes > 0 {
		out.NUMANodes = []int{i * g.NUMANodes / g.Count}
	}
	return out
}

func (g *SimulatedGroup) edits(device string) cdispec.ContainerEdits {
	var out cdispec.ContainerEdits
	for _, variable := range g.Env {
		out.Env = append(out.Env, strings.ReplaceAll(variable, "{device}", device))
	}
	return out
}

func (g *SimulatedGroup) described(device string) map[string]any {
	out := make(map[string]any, len(g.Data))
	for key, value := range g.Data {
		out[key] = strings.ReplaceAll(value, "{device}", device)
	}
	return out
}

func (g *SimulatedGroup) networkOf(device string) *resourceapi.NetworkDeviceData {
	out := g.Network.DeepCopy()
	if out != nil {
		out.InterfaceName = strings.ReplaceAll(out.InterfaceName, "{device}", device)
	}
	return out
}

func capacities(in map[resourceapi.QualifiedName]resource.Quantity) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	out := make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity, len(in))
	for name, value := range in {
		out[name] = resourceapi.DeviceCapacity{Value: value}
	}
	return out
}

func counters(in map[string]resource.Quantity) map[string]resourceapi.Counter {
	out := make(map[string]resourceapi.Counter, len(in))
	for name, value := range in {
		out[name] = resourceapi.Counter{Value: value}
	}
	return out
}
