// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package sysfs_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/dray-project/dray/agent/sysfs"
)

func ExampleSource_Scan() {
	// A machine with one GPU. The real one is at /.
	root, err := os.MkdirTemp("", "machine")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(root) }()
	gpu := filepath.Join(root, "sys/bus/pci/devices/0000:3b:00.0")
	for name, content := range map[string]string{"class": "0x030200", "numa_node": "1", "drm/renderD128/dev": "226:128"} {
		if err := os.MkdirAll(filepath.Join(gpu, filepath.Dir(name)), 0o755); err != nil {
			fmt.Println(err)
		}
		if err := os.WriteFile(filepath.Join(gpu, name), []byte(content+"\n"), 0o600); err != nil {
			fmt.Println(err)
		}
	}

	found, err := sysfs.New(sysfs.Options{Root: root, Driver: "node.example.com", Pool: "node-1"}).Scan()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, device := range found.Devices {
		fmt.Println(device.ID, device.Topology.NUMANodes, device.Edits.DeviceNodes[0].Path)
		fmt.Println(device.Health.Message)
	}
	// Output:
	// node.example.com/node-1/gpu-0000-3b-00-0 [1] /dev/dri/renderD128
	// no kernel driver drives 0000:3b:00.0
}
