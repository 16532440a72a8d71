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

// Simulation is a Source with devices from a file. Devices fail and recover by a script. When the
// file changes, it is read again, and the script starts over.
type Simulation struct {
	SimulatedDevices

	path string
	node nodeIdentity
}

// SimulatedDevices are the devices of one node, with the script of their events.
type SimulatedDevices struct {
	Groups []SimulatedGroup `json:"groups,omitempty"`
	Script []SimulatedEvent `json:"script,omitempty"`
}

// nodeIdentity is the name and index of a simulated node. The name is also that of the pools of its
// devices.
type nodeIdentity struct {
	name  string
	index int
}

// SimulatedGroup describes a number of similar devices.
type SimulatedGroup struct {
	Driver string `json:"driver"`
	// Name is the prefix of the devices' names, before a dash and the index.
	Name  string `json:"name"`
	Count int    `json:"count"`
	Type  string `json:"type,omitempty"` // the device plugin's resource name

	// In string attributes, {node} stands for the node's name, {index} for its index, and {device}
	// for the device's name.
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	Capacity   map[resourceapi.QualifiedName]resource.Quantity           `json:"capacity,omitempty"`
	Shares     int                                                       `json:"shares,omitempty"`
	// Taints are the devices' initial taints.
	Taints []resourceapi.DeviceTaint `json:"taints,omitempty"`

	// Counters, if set, are the counters of each device for its partitions. The whole device
	// consumes all of them.
	Counters   map[string]resource.Quantity `json:"counters,omitempty"`
	Partitions []SimulatedPartition         `json:"partitions,omitempty"`

	// PCIBus, if set, is the PCI bus number of the first device. The others have the following
	// numbers. Devices are distributed evenly over PCIeRoots and NUMANodes, if these are set.
	PCIBus    int `json:"pciBus,omitempty"`
	PCIeRoots int `json:"pcieRoots,omitempty"`
	NUMANodes int `json:"numaNodes,omitempty"`

	// Env are environment variables for containers with the device. {device} stands for the
	// device's name.
	Env []string `json:"env,omitempty"`

	// Data and Network are reported in the status of claims. {device} stands for the device's name
	// in values of Data and in names of interfaces.
	Data    map[string]string              `json:"data,omitempty"`
	Network *resourceapi.NetworkDeviceData `json:"network,omitempty"`
}

// SimulatedPartition describes partitions of a device.
type SimulatedPartition struct {
	// Name is the part of the partitions' names between the device's name and the index.
	Name       string                                                    `json:"name"`
	Count      int                                                       `json:"count"`
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	Capacity   map[resourceapi.QualifiedName]resource.Quantity           `json:"capacity,omitempty"`
	Counters   map[string]resource.Quantity                              `json:"counters"` // consumption of each partition
}

// SimulatedEvent is an event of a device and its partitions, or of a node. The latest event
// determines the state of a device or a node.
type SimulatedEvent struct {
	// At is the time since the start of the simulation. Events are sorted by it.
	At metav1.Duration `json:"at"`
	// Node limits the event to the node with this name. If it is empty, the event applies to all
	// nodes of the kind.
	Node string `json:"node,omitempty"`
	// Device is the name of a device. It is required, except with NotReady, Silent and Ready.
	Device string `json:"device,omitempty"`
	// Exactly one of the following fields is set.
	Fail    *SimulatedFailure        `json:"fail,omitempty"`
	Taint   *resourceapi.DeviceTaint `json:"taint,omitempty"`
	Recover bool                     `json:"recover,omitempty"` // reverts Fail and Taint
	Remove  bool                     `json:"remove,omitempty"`
	Add     bool                     `json:"add,omitempty"` // reverts Remove
	// NotReady, Silent and Ready are for nodes of dray-agent simulate. Other users of the file
	// ignore them.
	NotReady *SimulatedNodeFailure `json:"notReady,omitempty"`
	Silent   bool                  `json:"silent,omitempty"` // neither lease nor status nor slices of the node are written
	Ready    bool                  `json:"ready,omitempty"`
}

// IsOfNode tells whether the event applies to the node itself, not to a device.
func (e *SimulatedEvent) IsOfNode() bool { return e.NotReady != nil || e.Silent || e.Ready }

// SimulatedFailure is the health of a device that fails.
type SimulatedFailure struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Evict   bool   `json:"evict,omitempty"`
}

// SimulatedNodeFailure has reason and message of the condition Ready while it is False.
type SimulatedNodeFailure struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// ReadSimulation reads the devices of a node from a YAML file. The file describes one node of any
// name, or kinds of nodes. The node's name is also that of the pools.
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

// play reports the devices after each event of the script, until changed gets a value or ctx ends.
func (s *Simulation) play(ctx context.Context, changed <-chan struct{}, report func(*Inventory)) {
	started := time.Now()
	state := make(map[string]SimulatedEvent) // the latest event of each device
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

// inventory returns a node's devices. last has the latest event of each device.
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

// wholeOf returns the name of the whole device that a partition belongs to, or of the device
// itself. Counter sets have the names of whole devices.
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

// attributes returns the attributes of a device, with placeholders replaced.
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
