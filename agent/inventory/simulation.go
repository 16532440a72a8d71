package inventory

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
	cdispec "tags.cncf.io/container-device-interface/specs-go"
)

// Simulation is a Source whose devices are described by a file, and live and
// fail by a script. When the file changes, it is read again, and its script begins anew.
type Simulation struct {
	Groups []SimulatedGroup `json:"groups"`
	Script []SimulatedEvent `json:"script,omitempty"`

	path, pool string
}

// SimulatedGroup describes devices that are alike.
type SimulatedGroup struct {
	Driver string `json:"driver"`
	// Name is that of the devices, before a dash and their number.
	Name  string `json:"name"`
	Count int    `json:"count"`
	Type  string `json:"type,omitempty"` // the device plugin's resource name

	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	Capacity   map[resourceapi.QualifiedName]resource.Quantity           `json:"capacity,omitempty"`
	Shares     int                                                       `json:"shares,omitempty"`

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

// SimulatedEvent is something that happens to a device and its partitions.
type SimulatedEvent struct {
	// At is the time since the simulation started. Events are in its order.
	At metav1.Duration `json:"at"`
	// Device is the name of a device.
	Device string `json:"device"`
	// One of these is set.
	Fail    *SimulatedFailure `json:"fail,omitempty"`
	Recover bool              `json:"recover,omitempty"`
	Remove  bool              `json:"remove,omitempty"`
	Add     bool              `json:"add,omitempty"` // what was removed
}

// SimulatedFailure is how a device becomes unhealthy.
type SimulatedFailure struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Evict   bool   `json:"evict,omitempty"`
}

// ReadSimulation reads the description in a YAML file. All devices are of the
// same pool, which is usually named after the node.
func ReadSimulation(path, pool string) (*Simulation, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read simulation: %w", err)
	}
	simulation := &Simulation{path: path, pool: pool}
	if err := yaml.UnmarshalStrict(content, simulation); err != nil {
		return nil, fmt.Errorf("read simulation: %s: %w", path, err)
	}
	if err := simulation.validate(); err != nil {
		return nil, fmt.Errorf("read simulation: %s: %w", path, err)
	}
	return simulation, nil
}

func (s *Simulation) validate() error {
	if len(s.Groups) == 0 {
		return fmt.Errorf("groups: at least one is required")
	}
	for i, group := range s.Groups {
		if group.Driver == "" || group.Name == "" || group.Count < 1 {
			return fmt.Errorf("groups[%d]: driver, name and a count of at least 1 are required", i)
		}
		if err := group.validatePartitions(); err != nil {
			return fmt.Errorf("groups[%d]: %w", i, err)
		}
	}
	return s.validateScript()
}

func (g *SimulatedGroup) validatePartitions() error {
	for i, partition := range g.Partitions {
		if partition.Name == "" || partition.Count < 1 || len(partition.Counters) == 0 {
			return fmt.Errorf("partitions[%d]: name, counters and a count of at least 1 are required", i)
		}
		for counter := range partition.Counters {
			if _, ok := g.Counters[counter]; !ok {
				return fmt.Errorf("partitions[%d]: counter %s: the group has none of this name", i, counter)
			}
		}
	}
	return nil
}

func (s *Simulation) validateScript() error {
	names := make(map[string]bool)
	for _, device := range s.inventory(nil).Devices {
		names[device.ID.Device] = true
	}
	for i, event := range s.Script {
		actions := 0
		for _, set := range []bool{event.Fail != nil, event.Recover, event.Remove, event.Add} {
			if set {
				actions++
			}
		}
		switch {
		case actions != 1:
			return fmt.Errorf("script[%d]: exactly one of fail, recover, remove and add is required", i)
		case !names[event.Device]:
			return fmt.Errorf("script[%d]: device %q: there is no such device", i, event.Device)
		case i > 0 && event.At.Duration < s.Script[i-1].At.Duration:
			return fmt.Errorf("script[%d]: at %s comes after %s", i, event.At.Duration, s.Script[i-1].At.Duration)
		}
	}
	return nil
}

// play reports what the script says until changed gets a value, or ctx ends.
func (s *Simulation) play(ctx context.Context, changed <-chan struct{}, report func(*Inventory)) {
	started := time.Now()
	state := make(map[string]SimulatedEvent) // the last event of each device
	report(s.inventory(state))
	for _, event := range s.Script {
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
		report(s.inventory(state))
	}
	select {
	case <-ctx.Done():
	case <-changed:
	}
}

// inventory is what there is after the last event of each device.
func (s *Simulation) inventory(last map[string]SimulatedEvent) *Inventory {
	out := &Inventory{}
	for i := range s.Groups {
		s.Groups[i].addTo(out, s.pool)
	}
	out.Devices = slices.DeleteFunc(out.Devices, func(device Device) bool {
		return last[wholeOf(device)].Remove
	})
	for i := range out.Devices {
		if failure := last[wholeOf(out.Devices[i])].Fail; failure != nil {
			out.Devices[i].Health = Health{Unhealthy: true, Evict: failure.Evict, Reason: failure.Reason, Message: failure.Message}
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

func (g *SimulatedGroup) addTo(in *Inventory, pool string) {
	for i := range g.Count {
		name := g.Name + "-" + strconv.Itoa(i)
		whole := Device{
			ID:         ID{g.Driver, pool, name},
			Type:       g.Type,
			Attributes: g.Attributes,
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
			in.Devices = append(in.Devices, partition.of(&whole, g)...)
		}
	}
}

func (p *SimulatedPartition) of(whole *Device, g *SimulatedGroup) []Device {
	var out []Device
	for i := range p.Count {
		name := fmt.Sprintf("%s-%s-%d", whole.ID.Device, p.Name, i)
		out = append(out, Device{
			ID:         ID{whole.Driver, whole.Pool, name},
			Attributes: p.Attributes,
			Capacity:   capacities(p.Capacity),
			Consumes:   []resourceapi.DeviceCounterConsumption{{CounterSet: whole.ID.Device, Counters: counters(p.Counters)}},
			Topology:   whole.Topology,
			Edits:      g.edits(name),
			Data:       g.described(name),
			Network:    g.networkOf(name),
		})
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
