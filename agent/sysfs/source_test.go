// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/inventory"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// machine is a folder with a sysfs.
type machine struct {
	testing.TB
	root string
}

func newMachine(t testing.TB) *machine {
	m := &machine{t, t.TempDir()}
	m.mkdir("sys/bus/pci/devices")
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.root, name) }

func (m *machine) mkdir(name string) {
	m.Helper()
	if err := os.MkdirAll(m.path(name), 0o755); err != nil {
		m.Fatal(err)
	}
}

func (m *machine) write(name, content string) {
	m.Helper()
	m.mkdir(filepath.Dir(name))
	if err := os.WriteFile(m.path(name), []byte(content+"\n"), 0o600); err != nil {
		m.Fatal(err)
	}
}

// link makes a relative link, as sysfs does.
func (m *machine) link(name, target string) {
	m.Helper()
	m.mkdir(filepath.Dir(name))
	m.mkdir(target)
	relative, err := filepath.Rel(filepath.Dir(m.path(name)), m.path(target))
	if err == nil {
		err = os.Symlink(relative, m.path(name))
	}
	if err != nil {
		m.Fatal(err)
	}
}

// pci adds a function below its bridges: pci0000:00/0000:00:01.0/0000:01:00.0.
func (m *machine) pci(at, class, driver string, files ...string) string {
	m.Helper()
	dir := "sys/devices/" + at
	m.link("sys/bus/pci/devices/"+filepath.Base(at), dir)
	m.write(dir+"/class", class)
	m.write(dir+"/vendor", "0x15b3")
	m.write(dir+"/device", "0x1021")
	if driver != "" {
		m.link(dir+"/driver", "sys/bus/pci/drivers/"+driver)
	}
	for _, file := range files {
		name, content, isFile := strings.Cut(file, "=")
		if isFile {
			m.write(dir+"/"+name, content)
		} else {
			m.mkdir(dir + "/" + name)
		}
	}
	return dir
}

func (m *machine) scan() *inventory.Inventory {
	m.Helper()
	found, err := New(Options{Root: m.root, Driver: "node.example.com", Pool: "node-1"}).Scan()
	if err != nil {
		m.Fatal(err)
	}
	return found
}

// summary is a device on one line.
func summary(d inventory.Device) string {
	parts := []string{d.Device, "type=" + d.Type}
	if published := d.Attributes["type"].StringValue; published == nil || *published != d.Type {
		parts = append(parts, "not in its attributes")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		if name == "type" || name == "vendorID" || name == "deviceID" {
			continue
		}
		switch value := d.Attributes[name]; {
		case value.StringValue != nil:
			parts = append(parts, fmt.Sprintf("%s=%s", name, *value.StringValue))
		case value.IntValue != nil:
			parts = append(parts, fmt.Sprintf("%s=%d", name, *value.IntValue))
		case value.BoolValue != nil:
			parts = append(parts, fmt.Sprintf("%s=%t", name, *value.BoolValue))
		}
	}
	for name, capacity := range d.Capacity {
		parts = append(parts, fmt.Sprintf("%s=%s", name, capacity.Value.String()))
	}
	for _, consumption := range d.Consumes {
		for name, counter := range consumption.Counters {
			parts = append(parts, fmt.Sprintf("consumes=%s/%s:%s", consumption.CounterSet, name, counter.Value.String()))
		}
	}
	parts = append(parts, fmt.Sprintf("at=%s,%s,%v", d.Topology.PCIBusID, d.Topology.PCIeRoot, d.Topology.NUMANodes))
	for _, node := range d.Edits.DeviceNodes {
		parts = append(parts, node.Path)
	}
	for _, device := range d.Edits.NetDevices {
		parts = append(parts, "net:"+device.HostInterfaceName)
	}
	if d.Health.Unhealthy {
		parts = append(parts, "unhealthy="+d.Health.Reason)
	}
	return strings.Join(parts, " ")
}

func (m *machine) assertFinds(want ...string) {
	m.Helper()
	var got []string
	for _, device := range m.scan().Devices {
		got = append(got, summary(device))
	}
	if !slices.Equal(got, want) {
		m.Errorf("found\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestDisplayControllers(t *testing.T) {
	m := newMachine(t)
	m.write("sys/devices/pci0000:00/0000:00:01.0/numa_node", "1")
	m.pci("pci0000:00/0000:00:01.0/0000:01:00.0", "0x030200", "amdgpu", "numa_node=-1", "drm/card0", "drm/renderD128", "drm/card0-DP-1", "drm/version")
	m.pci("pci0000:80/0000:80:01.0", "0x030000", "", "numa_node=0")
	vm := m.pci("pci0000:80/0000:80:02.0", "0x038000", "vfio-pci", "numa_node=-1")
	m.link(vm+"/iommu_group", "sys/kernel/iommu_groups/41")
	m.pci("pci0000:80/0000:80:03.0", "0x030000", "vfio-pci")
	m.pci("pci0000:80/0000:80:04.0", "0x060400", "pcieport") // a bridge
	m.assertFinds(
		"gpu-0000-01-00-0 type=gpu kernelDriver=amdgpu at=0000:01:00.0,pci0000:00,[1] /dev/dri/card0 /dev/dri/renderD128",
		"gpu-0000-80-01-0 type=gpu at=0000:80:01.0,pci0000:80,[0] unhealthy=NoKernelDriver",
		"gpu-0000-80-02-0 type=gpu kernelDriver=vfio-pci at=0000:80:02.0,pci0000:80,[] /dev/vfio/41 /dev/vfio/vfio",
		"gpu-0000-80-03-0 type=gpu kernelDriver=vfio-pci at=0000:80:03.0,pci0000:80,[] unhealthy=NoIOMMUGroup",
	)
	device := m.scan().Devices[0]
	if device.Driver != "node.example.com" || device.Pool != "node-1" || *device.Attributes["vendorID"].StringValue != "0x15b3" || *device.Attributes["deviceID"].StringValue != "0x1021" {
		t.Errorf("identity of %+v", device)
	}
}

func TestNetworkControllers(t *testing.T) {
	m := newMachine(t)
	pf := m.pci("pci0000:3a/0000:3b:00.0", "0x020000", "mlx5_core", "numa_node=0", "sriov_totalvfs=8", "net/ens1f0", "infiniband/mlx5_0", "infiniband_verbs/uverbs0")
	for i, driver := range []string{"mlx5_core", "vfio-pci"} {
		address := fmt.Sprintf("pci0000:3a/0000:3b:00.%d", i+1)
		vf := m.pci(address, "0x020000", driver, "numa_node=0")
		m.link(vf+"/physfn", pf)
		m.link(vf+"/iommu_group", "sys/kernel/iommu_groups/7")
		m.link(fmt.Sprintf("%s/virtfn%d", pf, i), vf)
	}
	m.mkdir("sys/devices/pci0000:3a/0000:3b:00.1/net/ens1f0v0")
	m.pci("pci0000:3a/0000:3c:00.0", "0x020000", "virtio-pci", "virtio0/net/eth0")
	m.assertFinds(
		"nic-0000-3b-00-0 type=nic interface=ens1f0 kernelDriver=mlx5_core rdmaDevice=mlx5_0 totalVFs=8 consumes=functions-0000-3b-00-0/functions:2 at=0000:3b:00.0,pci0000:3a,[0] /dev/infiniband/uverbs0 /dev/infiniband/rdma_cm",
		"nic-0000-3b-00-1 type=nic-vf interface=ens1f0v0 kernelDriver=mlx5_core physicalFunction=0000:3b:00.0 virtualFunction=0 consumes=functions-0000-3b-00-0/functions:1 at=0000:3b:00.1,pci0000:3a,[0] net:ens1f0v0",
		"nic-0000-3b-00-2 type=nic-vf kernelDriver=vfio-pci physicalFunction=0000:3b:00.0 virtualFunction=1 consumes=functions-0000-3b-00-0/functions:1 at=0000:3b:00.2,pci0000:3a,[0] /dev/vfio/7 /dev/vfio/vfio",
		"nic-0000-3c-00-0 type=nic interface=eth0 kernelDriver=virtio-pci at=0000:3c:00.0,pci0000:3a,[]",
	)
	sets := m.scan().CounterSets
	if len(sets) != 1 || sets[0].Name != "functions-0000-3b-00-0" || sets[0].Driver != "node.example.com" || sets[0].Pool != "node-1" {
		t.Fatalf("counter sets %v", sets)
	}
	if value := sets[0].Counters["functions"].Value; value.Value() != 2 {
		t.Errorf("counters %v", sets[0].Counters)
	}
}

func TestNVMeDrives(t *testing.T) {
	m := newMachine(t)
	m.pci("pci0000:00/0000:02:00.0", "0x010802", "nvme", "numa_node=1",
		"nvme/nvme0/model=Fast One", "nvme/nvme0/serial=S1 ", "nvme/nvme0/firmware_rev=1.0", "nvme/nvme0/state=live",
		"nvme/nvme0/nvme0n1/size=2048", "nvme/nvme0/nvme0n2/size=2048", "nvme/nvme0/hwmon0/name=nvme")
	m.mkdir("sys/class/block/nvme0n1/holders")
	m.pci("pci0000:00/0000:03:00.0", "0x010802", "nvme",
		"nvme/nvme1/state=dead", "nvme/nvme1/model="+strings.Repeat("m", 65), "nvme/nvme1/nvme1c1n1/size=4096")
	m.mkdir("sys/class/block/nvme1n1/nvme1n1p1")
	m.pci("pci0000:00/0000:04:00.0", "0x010802", "nvme", "nvme/nvme2/nvme2n1/size=0")
	m.mkdir("sys/class/block/nvme2n1/holders/dm-0")
	m.pci("pci0000:00/0000:05:00.0", "0x010601", "ahci") // no NVMe
	m.pci("pci0000:00/0000:06:00.0", "0x010802", "nvme", "nvme/nvme3/nvme3n1/size=0")
	m.mkdir("sys/fs/ext4/nvme3n1") // it is mounted without partitions
	m.mkdir("sys/fs/ext4/features")
	m.pci("pci0000:00/0000:07:00.0", "0x010802", "nvme", "nvme/nvme4/nvme4n1/size=0")
	m.mkdir("sys/fs/btrfs/0b1c/devices/nvme4n1")
	m.assertFinds(
		"nvme-0000-02-00-0 type=nvme firmware=1.0 kernelDriver=nvme model=Fast One serial=S1 size=2Mi at=0000:02:00.0,pci0000:00,[1] /dev/nvme0 /dev/nvme0n1 /dev/nvme0n2",
		"nvme-0000-03-00-0 type=nvme hostUse=true kernelDriver=nvme size=2Mi at=0000:03:00.0,pci0000:00,[] /dev/nvme1 /dev/nvme1n1 unhealthy=ControllerNotLive",
		"nvme-0000-04-00-0 type=nvme hostUse=true kernelDriver=nvme at=0000:04:00.0,pci0000:00,[] /dev/nvme2 /dev/nvme2n1",
		"nvme-0000-06-00-0 type=nvme hostUse=true kernelDriver=nvme at=0000:06:00.0,pci0000:00,[] /dev/nvme3 /dev/nvme3n1",
		"nvme-0000-07-00-0 type=nvme hostUse=true kernelDriver=nvme at=0000:07:00.0,pci0000:00,[] /dev/nvme4 /dev/nvme4n1",
	)
}

// Names are DNS labels and attributes are what the API admits, on this machine
// too.
func TestThisMachine(t *testing.T) {
	if _, err := os.Stat("/sys/bus/pci/devices"); err != nil {
		t.Log("no PCI bus:", err)
		return
	}
	found, err := New(Options{Driver: "node.example.com", Pool: "node-1"}).Scan()
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range found.Devices {
		t.Log(summary(device))
		if len(device.Device) > 63 || strings.ContainsAny(device.Device, ":._ ") {
			t.Errorf("name %q", device.Device)
		}
	}
}

func TestTreesThatAreWrong(t *testing.T) {
	if _, err := New(Options{Root: t.TempDir()}).Scan(); err == nil || !strings.Contains(err.Error(), "find PCI devices") {
		t.Errorf("without a bus: %v", err)
	}

	m := newMachine(t)
	m.pci("pci0000:00/0000:02:00.0", "0x030000", "amdgpu", "numa_node=many")
	if _, err := New(Options{Root: m.root}).Scan(); err == nil || !strings.Contains(err.Error(), "PCI device 0000:02:00.0: ") || !strings.Contains(err.Error(), "numa_node") {
		t.Errorf("with a bad number: %v", err)
	}

	m = newMachine(t)
	dir := m.pci("pci0000:00/0000:02:00.0", "0x030000", "amdgpu")
	if err := os.RemoveAll(m.path(dir)); err != nil {
		t.Fatal(err)
	}
	m.assertFinds() // the device went away, the link is still there
}

// What cannot be read is an error that names the device, whichever it is: a file where a folder should be, or a folder in place of a file.
func TestFilesThatCannotBeRead(t *testing.T) {
	m := newMachine(t)
	m.pci("pci0000:00/0000:02:00.0", "0x010802", "nvme", "numa_node=1",
		"nvme/nvme0/model=Fast One", "nvme/nvme0/serial=S1", "nvme/nvme0/firmware_rev=1.0", "nvme/nvme0/state=live", "nvme/nvme0/nvme0n1/size=2048")
	m.pci("pci0000:00/0000:03:00.0", "0x030000", "amdgpu", "drm/card0/dev=226:0", "mem_info_vram_total=1024", "numa_node=0")
	m.pci("pci0000:00/0000:04:00.0", "0x020000", "mlx5_core", "net/eth0/address=02:00:00:00:00:01", "net/eth0/speed=1000", "net/eth0/operstate=up", "sriov_numvfs=0", "sriov_totalvfs=4")
	var files []string
	isFile := make(map[string]bool)
	err := filepath.WalkDir(m.path("sys/devices/pci0000:00"), func(path string, entry fs.DirEntry, err error) error {
		if strings.Count(path, "/") > strings.Count(m.path("sys/devices/pci0000:00/device"), "/") && err == nil && entry.Type() != fs.ModeSymlink {
			files = append(files, path)
			isFile[path] = entry.Type().IsRegular()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	whole := m.scan().Devices
	failed := 0
	for _, file := range files {
		kept := filepath.Join(m.root, "kept")
		err := os.Rename(file, kept)
		if isFile[file] {
			err = errors.Join(err, os.Mkdir(file, 0o700))
		} else {
			err = errors.Join(err, os.WriteFile(file, nil, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		found, err := New(Options{Root: m.root, Driver: "node.example.com", Pool: "node-1"}).Scan()
		_, below, _ := strings.Cut(file, "pci0000:00/")
		device, _, _ := strings.Cut(below, "/")
		switch {
		case err == nil && !equality.Semantic.DeepEqual(found.Devices, whole):
			t.Errorf("%s: no error, and other devices: %v", file, found.Devices)
		case err != nil && !strings.Contains(err.Error(), "PCI device "+device+": "):
			t.Errorf("%s: %v", file, err)
		case err != nil:
			failed++
		}
		if err := errors.Join(os.Remove(file), os.Rename(kept, file)); err != nil {
			t.Fatal(err)
		}
	}
	if failed < 15 {
		t.Errorf("%d of %d files and folders are read", failed, len(files))
	}
}

// Trees that people make by hand have folders where sysfs has links.
func TestPlainFolders(t *testing.T) {
	m := newMachine(t)
	m.write("sys/bus/pci/devices/0000:02:00.0/class", "0x030000")
	m.write("sys/bus/pci/devices/0000:02:00.0/numa_node", "1")
	m.link("sys/bus/pci/devices/0000:02:00.0/driver", "sys/bus/pci/drivers/i915")
	m.assertFinds("gpu-0000-02-00-0 type=gpu kernelDriver=i915 at=0000:02:00.0,,[1]")
}

func TestRunReportsChanges(t *testing.T) {
	m := newMachine(t)
	m.pci("pci0000:00/0000:02:00.0", "0x010802", "nvme", "nvme/nvme0/state=live", "nvme/nvme0/nvme0n1/size=2048")
	ctx, cancel := context.WithCancel(t.Context())
	reports := make(chan *inventory.Inventory, 100)
	ended := make(chan error)
	source := New(Options{Root: m.root, Driver: "node.example.com", Pool: "node-1", Interval: time.Millisecond})
	go func() { ended <- source.Run(ctx, func(found *inventory.Inventory) { reports <- found }) }()

	next := func() *inventory.Inventory {
		t.Helper()
		select {
		case found := <-reports:
			return found
		case <-time.After(5 * time.Minute):
			t.Fatal("no report")
			return nil
		}
	}
	if found := next(); len(found.Devices) != 1 || found.Devices[0].Health.Unhealthy {
		t.Errorf("first report %v", found)
	}
	time.Sleep(20 * time.Millisecond) // some looks
	if len(reports) > 0 {
		t.Error("an unchanged inventory was reported again")
	}
	m.write("sys/bus/pci/devices/0000:02:00.0/nvme/nvme0/state", "resetting")
	for found := next(); !found.Devices[0].Health.Unhealthy; found = next() { // a file is empty while it is written
	}
	// A look that fails changes nothing.
	m.write("sys/bus/pci/devices/0000:02:00.0/numa_node", "?")
	time.Sleep(20 * time.Millisecond)
	m.write("sys/bus/pci/devices/0000:02:00.0/numa_node", "1")
	for found := next(); len(found.Devices[0].Topology.NUMANodes) == 0; found = next() {
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run ended with %v", err)
	}
	if err := New(Options{Root: t.TempDir()}).Run(t.Context(), func(*inventory.Inventory) {}); err == nil {
		t.Error("Run without a bus has no error")
	}
}

// A virtual function is as healthy as its physical function, and says what it has itself first.
func TestFollows(t *testing.T) {
	f := &function{physicalFunction: "0000:3b:00.0"}
	for name, test := range map[string]struct {
		own, physical, want inventory.Health
	}{
		"both are well":      {},
		"the physical one":   {inventory.Health{}, inventory.Health{Unhealthy: true, Message: "down"}, inventory.Health{Unhealthy: true, Reason: "PhysicalFunctionUnhealthy", Message: "its physical function 0000:3b:00.0: down"}},
		"the virtual one":    {inventory.Health{Unhealthy: true, Message: "own"}, inventory.Health{}, inventory.Health{Unhealthy: true, Message: "own"}},
		"both are unhealthy": {inventory.Health{Unhealthy: true, Message: "own"}, inventory.Health{Unhealthy: true, Message: "down"}, inventory.Health{Unhealthy: true, Message: "own"}},
	} {
		device := &inventory.Device{Health: test.own}
		if follows := f.follows(device, &inventory.Device{Health: test.physical}); !follows || device.Health != test.want {
			t.Errorf("%s: %t, %+v, want %+v", name, follows, device.Health, test.want)
		}
	}
	if f.follows(&inventory.Device{}, nil) {
		t.Error("it follows a physical function that is not there")
	}
}
