// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/utils/ptr"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/internal/numa"
	"github.com/dray-project/dray/agent/inventory"
)

// function is a PCI function in sysfs.
type function struct {
	options *Options
	address string // 0000:3b:00.0
	dir     string // sys/bus/pci/devices/<address>

	kernelDriver     string // empty if it is not bound to a driver
	physicalFunction string // address of the physical function, if this is a virtual one
	virtualFunctions []string
}

// kinds are the supported kinds of functions, by the first digits of the class code.
var kinds = []struct {
	class  string
	prefix string // prefix of devices' names
	read   func(*function, *inventory.Device) error
}{
	{"0x03", "gpu", (*function).display},
	{"0x02", "nic", (*function).network},
	{"0x0108", "nvme", (*function).nvme},
}

// device returns the record of the function, or nil if its kind is not supported.
func (f *function) device() (*inventory.Device, error) {
	class, err := attribute(f.dir, "class")
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		if !strings.HasPrefix(class, kind.class) {
			continue
		}
		device := &inventory.Device{
			ID:         inventory.ID{Driver: f.options.Driver, Pool: f.options.Pool, Device: kind.prefix + "-" + f.name()},
			Type:       kind.prefix,
			Attributes: make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute),
		}
		if err := f.common(device); err != nil {
			return nil, err
		}
		if err := kind.read(f, device); err != nil {
			return nil, err
		}
		setString(device, "type", device.Type)
		if f.kernelDriver == vfio {
			return device, f.passThrough(device)
		}
		return device, nil
	}
	return nil, nil
}

// name returns the address as a valid DNS label.
func (f *function) name() string { return strings.NewReplacer(":", "-", ".", "-").Replace(f.address) }

func (f *function) isThere() bool {
	_, err := os.Stat(f.dir)
	return err == nil
}

// common sets what all kinds of functions have.
func (f *function) common(device *inventory.Device) error {
	var err error
	if f.kernelDriver, err = linkName(f.dir, "driver"); err != nil {
		return err
	}
	if f.physicalFunction, err = linkName(f.dir, "physfn"); err != nil {
		return err
	}
	if device.Topology, err = f.topology(); err != nil {
		return err
	}
	for name, file := range map[resourceapi.QualifiedName]string{"vendorID": "vendor", "deviceID": "device"} {
		if err := f.setFromFile(device, name, f.dir, file); err != nil {
			return err
		}
	}
	setString(device, "kernelDriver", f.kernelDriver)
	if f.kernelDriver == "" {
		device.Health = inventory.Health{Unhealthy: true, Reason: "NoKernelDriver", Message: "no kernel driver drives " + f.address}
	}
	return nil
}

func (f *function) topology() (inventory.Topology, error) {
	topology := inventory.Topology{PCIBusID: f.address}
	sys := deviceattribute.WithFSFromRoot(filepath.Join(f.options.Root, "sys"))
	// an error means that the function is not below a root complex
	if root, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(f.address, sys); err == nil {
		topology.PCIeRoot = ptr.Deref(root.Value.StringValue, "")
	}
	node, known, err := numa.OfPath(filepath.Join(f.options.Root, "sys"), f.dir)
	if err == nil && known {
		topology.NUMANodes = []int{node}
	}
	return topology, err
}

// vfio is the kernel driver for passing a function to a virtual machine or a user-space driver.
const vfio = "vfio-pci"

// passThrough replaces the container edits by those for vfio.
func (f *function) passThrough(device *inventory.Device) error {
	group, err := linkName(f.dir, "iommu_group")
	if err != nil {
		return err
	}
	if group == "" {
		device.Health = inventory.Health{Unhealthy: true, Reason: "NoIOMMUGroup", Message: f.address + " is driven by vfio-pci and has no IOMMU group"}
		return nil
	}
	device.Edits = cdispec.ContainerEdits{}
	addNodes(device, "/dev/vfio/", group, "vfio")
	return nil
}

// counterSet returns the counter set that a physical function shares with its virtual functions, or
// nil if it has none.
func (f *function) counterSet() *inventory.CounterSet {
	if len(f.virtualFunctions) == 0 {
		return nil
	}
	return &inventory.CounterSet{
		Driver: f.options.Driver,
		Pool:   f.options.Pool,
		CounterSet: resourceapi.CounterSet{
			Name:     counterSetName(f.address),
			Counters: map[string]resourceapi.Counter{functionsCounter: {Value: functions(len(f.virtualFunctions))}},
		},
	}
}

const functionsCounter = "functions"

func counterSetName(address string) string {
	return "functions-" + (&function{address: address}).name()
}

func functions(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }

// consume makes a device consume n of the physical function's counter.
func consume(device *inventory.Device, address string, n int) {
	device.Consumes = []resourceapi.DeviceCounterConsumption{{
		CounterSet: counterSetName(address),
		Counters:   map[string]resourceapi.Counter{functionsCounter: {Value: functions(n)}},
	}}
}

// findVirtualFunctions reads the links virtfn0, virtfn1, …
func (f *function) findVirtualFunctions() error {
	names, err := children(f.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "virtfn") {
			continue
		}
		address, err := linkName(f.dir, name)
		if err != nil {
			return err
		}
		if address != "" {
			f.virtualFunctions = append(f.virtualFunctions, address)
		}
	}
	return nil
}

// follows makes a virtual function unhealthy if its physical function is. It returns false if the
// virtual function must be left out. That is so if the physical function is missing, or had no
// virtual functions when it was read. They are then being added or removed, and the counters that
// this one consumes are not in the pool.
func (f *function) follows(device, physical *inventory.Device) bool {
	if physical == nil {
		return false
	}
	if len(device.Consumes) > 0 && len(physical.Consumes) == 0 {
		return false
	}
	if physical.Health.Unhealthy && !device.Health.Unhealthy {
		device.Health = inventory.Health{
			Unhealthy: true, Reason: "PhysicalFunctionUnhealthy",
			Message: "its physical function " + f.physicalFunction + ": " + physical.Health.Message,
		}
	}
	return true
}

// index returns the index of a virtual function within its physical function, or -1.
func (f *function) index() (int, error) {
	names, err := children(f.dir, "physfn")
	if err != nil {
		return -1, err
	}
	i := slices.IndexFunc(names, func(name string) bool {
		number, isLink := strings.CutPrefix(name, "virtfn")
		address, err := linkName(f.dir, "physfn", name)
		return isLink && number != "" && err == nil && address == f.address
	})
	if i < 0 {
		return -1, nil
	}
	index, err := strconv.Atoi(strings.TrimPrefix(names[i], "virtfn"))
	if err != nil {
		return -1, err
	}
	return index, nil
}

// setFromFile sets an attribute to the content of a file, if the file exists.
func (f *function) setFromFile(device *inventory.Device, name resourceapi.QualifiedName, path ...string) error {
	value, err := attribute(path...)
	if err != nil && !errors.Is(err, fs.ErrInvalid) {
		return err
	}
	setString(device, name, value)
	return nil
}

// setString sets an attribute, unless the value is empty or invalid in the API.
func setString(device *inventory.Device, name resourceapi.QualifiedName, value string) {
	if value != "" && len(value) <= resourceapi.DeviceAttributeMaxValueLength {
		device.Attributes[name] = resourceapi.DeviceAttribute{StringValue: &value}
	}
}

func setInt(device *inventory.Device, name resourceapi.QualifiedName, value int) {
	device.Attributes[name] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(value))}
}

// addNodes adds device nodes to the edits.
func addNodes(device *inventory.Device, folder string, names ...string) {
	for _, name := range names {
		device.Edits.DeviceNodes = append(device.Edits.DeviceNodes, &cdispec.DeviceNode{Path: folder + name})
	}
}
