// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/inventory"
)

var drmNode = regexp.MustCompile(`^(card|renderD)[0-9]+$`)

// display reads a display controller. Its device nodes are those of the Direct Rendering Manager
// (DRM).
func (f *function) display(device *inventory.Device) error {
	names, err := children(f.dir, "drm")
	if err != nil {
		return err
	}
	addNodes(device, "/dev/dri/", matching(names, drmNode)...)
	return nil
}

// network reads a network controller, physical or virtual.
func (f *function) network(device *inventory.Device) error {
	interfaces, err := f.interfaces()
	if err != nil {
		return err
	}
	rdma, err := children(f.dir, "infiniband")
	if err != nil {
		return err
	}
	verbs, err := children(f.dir, "infiniband_verbs")
	if err != nil {
		return err
	}
	addNodes(device, "/dev/infiniband/", verbs...)
	if len(verbs) > 0 {
		addNodes(device, "/dev/infiniband/", "rdma_cm")
	}
	// a function with several ports has several interfaces; the first is published
	if len(interfaces) > 0 {
		setString(device, "interface", interfaces[0])
	}
	if len(rdma) > 0 {
		setString(device, "rdmaDevice", rdma[0])
	}
	if f.physicalFunction != "" {
		return f.virtualNetwork(device, interfaces)
	}
	return f.physicalNetwork(device)
}

// interfaces returns the function's network interfaces. With virtio, they belong to a child device.
func (f *function) interfaces() ([]string, error) {
	names, err := children(f.dir, "net")
	if err != nil {
		return nil, err
	}
	below, err := filepath.Glob(filepath.Join(f.dir, "virtio[0-9]*", "net", "*"))
	for _, path := range below {
		names = append(names, filepath.Base(path))
	}
	return names, err
}

func (f *function) physicalNetwork(device *inventory.Device) error {
	if err := f.findVirtualFunctions(); err != nil {
		return err
	}
	total, err := attribute(f.dir, "sriov_totalvfs")
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(total); err == nil {
		setInt(device, "totalVFs", n)
	}
	if n := len(f.virtualFunctions); n > 0 {
		consume(device, f.address, n)
	}
	return nil
}

// virtualNetwork adds the network interface to the container edits, so that it is moved into the
// container. The interface of a physical function is not moved, since the node may need it.
func (f *function) virtualNetwork(device *inventory.Device, interfaces []string) error {
	device.Type = "nic-vf"
	setString(device, "physicalFunction", f.physicalFunction)
	index, err := f.index()
	if err != nil {
		return err
	}
	if index >= 0 {
		setInt(device, "virtualFunction", index)
		consume(device, f.physicalFunction, 1)
	}
	for _, name := range interfaces {
		device.Edits.NetDevices = append(device.Edits.NetDevices, &cdispec.LinuxNetDevice{HostInterfaceName: name, Name: name})
	}
	return nil
}

var (
	controllerName = regexp.MustCompile(`^nvme[0-9]+$`)
	// With multipath, each path to a namespace has its own name. The name of the namespace is that
	// without the part that begins with c.
	namespaceName = regexp.MustCompile(`^(nvme[0-9]+)(?:c[0-9]+)?(n[0-9]+)$`)
)

const sectorSize = 512 // unit of block device sizes in sysfs, in bytes

// nvme reads an NVMe controller with its namespaces.
func (f *function) nvme(device *inventory.Device) error {
	names, err := children(f.dir, "nvme")
	if err != nil {
		return err
	}
	sectors := int64(0)
	for _, controller := range matching(names, controllerName) {
		dir := filepath.Join(f.dir, "nvme", controller)
		addNodes(device, "/dev/", controller)
		for name, file := range map[resourceapi.QualifiedName]string{"model": "model", "serial": "serial", "firmware": "firmware_rev"} {
			if err := f.setFromFile(device, name, dir, file); err != nil {
				return err
			}
		}
		state, err := attribute(dir, "state")
		if err != nil {
			return err
		}
		if state != "" && state != "live" {
			device.Health = inventory.Health{Unhealthy: true, Reason: "ControllerNotLive", Message: controller + " is " + state}
		}
		size, err := f.namespaces(device, dir)
		if err != nil {
			return err
		}
		sectors += size
	}
	if sectors > 0 {
		device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"size": {Value: *resource.NewQuantity(sectors*sectorSize, resource.BinarySI)},
		}
	}
	return nil
}

// namespaces adds the namespaces of a controller, and returns their total size.
func (f *function) namespaces(device *inventory.Device, dir string) (sectors int64, err error) {
	names, err := children(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		parts := namespaceName.FindStringSubmatch(name)
		if parts == nil {
			continue
		}
		block := parts[1] + parts[2]
		addNodes(device, "/dev/", block)
		size, err := attribute(dir, name, "size")
		if err != nil {
			return 0, err
		}
		if n, err := strconv.ParseInt(size, 10, 64); err == nil {
			sectors += n
		}
		used, err := f.hostUses(block)
		if err != nil {
			return 0, err
		}
		if used {
			device.Attributes["hostUse"] = resourceapi.DeviceAttribute{BoolValue: ptr.To(true)}
		}
	}
	return sectors, nil
}

// hostUses tells whether a block device has partitions, other block devices on top of it, or a file
// system that is mounted. File systems have a folder with the name of their device, except btrfs,
// which may have several.
func (f *function) hostUses(block string) (bool, error) {
	sys := filepath.Join(f.options.Root, "sys")
	holders, err := children(sys, "class/block", block, "holders")
	if err != nil || len(holders) > 0 {
		return len(holders) > 0, err
	}
	for _, pattern := range []string{"class/block/" + block + "/" + block + "p[0-9]*", "fs/*/" + block, "fs/btrfs/*/devices/" + block} {
		found, err := filepath.Glob(filepath.Join(sys, pattern))
		if err != nil || len(found) > 0 {
			return len(found) > 0, err
		}
	}
	return false, nil
}

func matching(names []string, pattern *regexp.Regexp) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !pattern.MatchString(name) })
}
