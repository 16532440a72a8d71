// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"os"
	"slices"
	"testing"

	"github.com/dray-project/dray/agent/inventory"
)

const (
	physical = "pci0000:00/0000:00:01.0/0000:3b:00.0"
	virtual  = "pci0000:00/0000:00:01.0/0000:3b:00.2"
)

// nicWithFunction adds a NIC and one virtual function.
func nicWithFunction(m *machine, driver string) (pf, vf string) {
	pf = m.pci(physical, "0x020000", driver)
	vf = m.pci(virtual, "0x020000", "mlx5_core")
	m.link(pf+"/virtfn0", vf)
	m.link(vf+"/physfn", pf)
	return pf, vf
}

// names are those of the devices that are found, with the reasons of those unhealthy.
func names(in *inventory.Inventory) []string {
	var out []string
	for _, device := range in.Devices {
		name := device.ID.Device
		if device.Health.Unhealthy {
			name += " " + device.Health.Reason
		}
		out = append(out, name)
	}
	return out
}

// TestVanishes removes a device while it is read: what was read of it is not reported.
func TestVanishes(t *testing.T) {
	m := newMachine(t)
	gone := m.pci("pci0000:00/0000:01:00.0", "0x030000", "drm")
	m.pci("pci0000:00/0000:02:00.0", "0x030000", "drm")
	read := kinds[0].read
	t.Cleanup(func() { kinds[0].read = read })
	kinds[0].read = func(f *function, device *inventory.Device) error {
		if f.address == "0000:01:00.0" {
			if err := os.RemoveAll(m.path(gone)); err != nil {
				t.Fatal(err)
			}
		}
		return read(f, device)
	}
	if got := names(m.scan()); !slices.Equal(got, []string{"gpu-0000-02-00-0"}) {
		t.Errorf("found %q", got)
	}
}

// TestVirtualFunctionsFollow their physical function: without it, they are not reported.
func TestVirtualFunctionsFollow(t *testing.T) {
	for name, test := range map[string]struct {
		driver string
		change func(m *machine, pf string)
		want   []string
	}{
		"healthy":                   {"mlx5_core", func(*machine, string) {}, []string{"nic-0000-3b-00-0", "nic-0000-3b-00-2"}},
		"unhealthy":                 {"", func(*machine, string) {}, []string{"nic-0000-3b-00-0 NoKernelDriver", "nic-0000-3b-00-2 PhysicalFunctionUnhealthy"}},
		"gone":                      {"mlx5_core", func(m *machine, _ string) { m.remove("sys/bus/pci/devices/0000:3b:00.0") }, nil},
		"without virtual functions": {"mlx5_core", func(m *machine, pf string) { m.unlinked(pf + "/virtfn0") }, []string{"nic-0000-3b-00-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			pf, _ := nicWithFunction(m, test.driver)
			test.change(m, pf)
			found := m.scan()
			if got := names(found); !slices.Equal(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
			// All counters that are consumed are in the pool.
			for _, device := range found.Devices {
				for _, consumption := range device.Consumes {
					if !slices.ContainsFunc(found.CounterSets, func(set inventory.CounterSet) bool { return set.Name == consumption.CounterSet }) {
						t.Errorf("device %s consumes counters of %s, which is not in the pool", device.ID.Device, consumption.CounterSet)
					}
				}
			}
		})
	}
}

func (m *machine) remove(name string) {
	m.Helper()
	if err := os.RemoveAll(m.path(name)); err != nil {
		m.Fatal(err)
	}
}

// unlinked hides the link to a virtual function while its physical function is read, as if
// the virtual function were made right afterwards.
func (m *machine) unlinked(link string) {
	m.Helper()
	read := kinds[1].read
	m.Cleanup(func() { kinds[1].read = read })
	kinds[1].read = func(f *function, device *inventory.Device) error {
		if f.physicalFunction != "" {
			return read(f, device)
		}
		target, err := os.Readlink(m.path(link))
		if err == nil {
			err = os.Remove(m.path(link))
		}
		if err != nil {
			m.Fatal(err)
		}
		if err := read(f, device); err != nil {
			return err
		}
		return os.Symlink(target, m.path(link))
	}
}
