// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"os"
	"path/filepath"
	"testing"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func TestTopologyComesFromSysfs(t *testing.T) {
	sys := t.TempDir()
	// The numbers of /dev/null and /dev/zero are the same on each Linux.
	for number, node := range map[string]string{"1:3": "1", "1:5": "0"} {
		dir := filepath.Join(sys, "devices", "pci"+node, "mem", number)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sys, "devices", "pci"+node, "numa_node"), []byte(node+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(sys, "dev/char"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(dir, filepath.Join(sys, "dev/char", number)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		paths []string
		want  []int64
	}{
		"one node":    {[]string{"/dev/null"}, []int64{1}},
		"two nodes":   {[]string{"/dev/null", "/dev/zero", "/dev/null"}, []int64{0, 1}},
		"no node":     {[]string{"/dev/full"}, nil},
		"no device":   {[]string{"/dev"}, nil},
		"no nodes":    {nil, nil},
		"one missing": {[]string{"/dev/missing", "/dev/zero"}, []int64{0}},
	} {
		var nodes []pluginapi.DeviceSpec
		for _, path := range c.paths {
			nodes = append(nodes, pluginapi.DeviceSpec{HostPath: path})
		}
		topology := deviceBySysfs(sys, pluginapi.Healthy, nodes, nil, nil, nil, nil).message("0").GetTopology()
		var got []int64
		for _, node := range topology.GetNodes() {
			got = append(got, node.GetID())
		}
		if len(got) != len(c.want) || (topology == nil) != (c.want == nil) {
			t.Fatalf("%s: topology %v, want %v", name, topology, c.want)
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: nodes %v, want %v", name, got, c.want)
			}
		}
	}
}

func TestDeviceTree(t *testing.T) {
	devices := NewDeviceTree()
	if devices.DeviceTypeCount("gpu") != 0 {
		t.Error("a new tree has devices")
	}
	devices.AddDevice("gpu", "0", healthy())
	devices.AddDevice("gpu", "0", unhealthy())
	devices.AddDevice("gpu", "1", healthy())
	devices.AddDevice("nic", "0", healthy())
	if devices.DeviceTypeCount("gpu") != 2 || devices.DeviceTypeCount("nic") != 1 || devices.DeviceTypeCount("fpga") != 0 {
		t.Errorf("counts of %v", devices)
	}
	if got := devices["gpu"]["0"].message("0").GetHealth(); got != pluginapi.Unhealthy {
		t.Errorf("the device that was added last is %s", got)
	}
}
