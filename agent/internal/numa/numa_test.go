// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package numa

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dray-project/dray/agent/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// tree makes a sysfs. A value that starts with "->" is the target of a link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		target, isLink := strings.CutPrefix(content, "->")
		var err error
		if isLink {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestOfPath(t *testing.T) {
	sys := tree(t, map[string]string{
		"devices/pci0000:00/0000:00:01.0/numa_node":                  "1\n",
		"devices/pci0000:00/0000:00:01.0/0000:01:00.0/numa_node":     "-1\n",
		"devices/pci0000:00/0000:00:01.0/0000:01:00.0/drm/card0/dev": "226:0\n",
		"devices/pci0000:80/0000:80:01.0/numa_node":                  "0\n",
		"devices/pci0000:80/0000:80:01.0/0000:81:00.0/numa_node":     "2\n",
		"devices/pci0000:c0/0000:c0:01.0/numa_node":                  "-1\n",
		"devices/pci0000:d0/0000:d0:01.0/numa_node":                  "one\n",
		"devices/virtual/mem/null/dev":                               "1:3\n",
		"bus/pci/devices/0000:01:00.0":                               "->../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0",
		"numa_node":                                                  "7\n", // above the devices
		"elsewhere/numa_node":                                        "-1\n",
	})
	for path, want := range map[string]int{
		"devices/pci0000:00/0000:00:01.0":                        1,
		"devices/pci0000:00/0000:00:01.0/0000:01:00.0":           1, // it does not know, its parent does
		"devices/pci0000:00/0000:00:01.0/0000:01:00.0/drm/card0": 1,
		"bus/pci/devices/0000:01:00.0":                           1,
		"devices/pci0000:80/0000:80:01.0/0000:81:00.0":           2, // its own, not its parent's
		"devices/pci0000:c0/0000:c0:01.0":                        -1,
		"devices/virtual/mem/null":                               -1,
		"elsewhere":                                              -1,
	} {
		node, known, err := OfPath(sys, filepath.Join(sys, path))
		if !known {
			node = -1
		}
		if node != want || err != nil {
			t.Errorf("%s: node %d, want %d (%v)", path, node, want, err)
		}
	}
	for _, path := range []string{"devices/pci0000:d0/0000:d0:01.0", "devices/missing"} {
		if _, _, err := OfPath(sys, filepath.Join(sys, path)); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}

// TestVFIO: the nodes of a VFIO group are those of its devices. What looks nearly like one has
// none, and the container of all groups neither. /dev/null and its like stand for them.
func TestVFIO(t *testing.T) {
	for name, test := range map[string]struct {
		device string
		want   []int
	}{
		"group":                {"devices/virtual/vfio/42", []int{0, 1}},
		"group without device": {"devices/virtual/vfio/43", nil},
		"group that is gone":   {"devices/virtual/vfio/44", nil},
		"container":            {"devices/virtual/vfio/vfio", nil},
		"something else":       {"devices/virtual/mem/42", nil},
		"device of its own":    {"devices/pci0000:3a/0000:3d:01.0/vfio-dev/vfio0", []int{1}}, // /dev/vfio/devices/vfio0
	} {
		t.Run(name, func(t *testing.T) {
			sys := tree(t, map[string]string{
				"devices/pci0000:3a/0000:3d:01.0/numa_node":   "1\n",
				"devices/pci0000:3a/0000:3d:01.1/numa_node":   "-1\n",
				"devices/pci0000:80/numa_node":                "0\n",
				"devices/pci0000:80/0000:81:00.0/numa_node":   "-1\n",
				"kernel/iommu_groups/42/devices/0000:3d:01.0": "->../../../../devices/pci0000:3a/0000:3d:01.0",
				"kernel/iommu_groups/42/devices/0000:3d:01.1": "->../../../../devices/pci0000:3a/0000:3d:01.1",
				"kernel/iommu_groups/42/devices/0000:81:00.0": "->../../../../devices/pci0000:80/0000:81:00.0",
				"kernel/iommu_groups/42/devices/0000:ff:00.0": "->../../../../devices/pci0000:ff/0000:ff:00.0", // unplugged
				"kernel/iommu_groups/43/type":                 "DMA\n",
				test.device + "/dev":                          "1:3\n",
				"dev/char/1:3":                                "->../../" + test.device,
			})
			if err := os.MkdirAll(filepath.Join(sys, "kernel/iommu_groups/43/devices"), 0o755); err != nil {
				t.Fatal(err)
			}
			nodes, err := OfDeviceFiles(sys, []string{"/dev/null"})
			if err != nil || !slices.Equal(nodes, test.want) {
				t.Errorf("nodes %v, want %v (%v)", nodes, test.want, err)
			}
		})
	}
}

func TestOfDeviceFiles(t *testing.T) {
	// The numbers of these three are the same on each Linux.
	sys := tree(t, map[string]string{
		"devices/pci0000:00/numa_node":    "3\n",
		"devices/pci0000:00/mem/null/dev": "1:3\n",
		"devices/pci0000:80/numa_node":    "0\n",
		"devices/pci0000:80/mem/zero/dev": "1:5\n",
		"dev/char/1:3":                    "->../../devices/pci0000:00/mem/null",
		"dev/char/1:5":                    "->../../devices/pci0000:80/mem/zero",
	})
	nodes, err := OfDeviceFiles(sys, []string{"/dev/null", "/dev/zero", "/dev/null", "/dev/full", "/dev"})
	if err != nil || !slices.Equal(nodes, []int{0, 3}) {
		t.Errorf("nodes %v, want [0 3] (%v)", nodes, err)
	}
	nodes, err = OfDeviceFiles(sys, []string{"/dev/missing", "/dev/zero"})
	if err == nil || !strings.Contains(err.Error(), "/dev/missing") || !slices.Equal(nodes, []int{0}) {
		t.Errorf("nodes %v, want [0] and an error that names /dev/missing, not %v", nodes, err)
	}
}
