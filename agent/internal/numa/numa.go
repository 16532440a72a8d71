// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package numa finds the NUMA node of a device in sysfs.
//
// The kernel states it in a file numa_node of a device that sits on a bus, and
// -1 where the firmware says nothing. Drivers add devices below, such as a
// character device, that have no such file. The node of a device is therefore
// that of its nearest ancestor which knows one.
//
// A VFIO group, /dev/vfio/N, has no ancestor on a bus. Its nodes are those of the devices in
// the IOMMU group of that number.
package numa

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// OfPath returns the node of the device at path, which is a folder below sys
// or a link to one. It returns false if neither the device nor an ancestor
// knows its node.
func OfPath(sys, path string) (int, bool, error) {
	sys, err := filepath.EvalSymlinks(sys)
	if err != nil {
		return 0, false, fmt.Errorf("find NUMA node: %w", err)
	}
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return 0, false, fmt.Errorf("find NUMA node: %w", err)
	}
	devices := filepath.Join(sys, "devices")
	for {
		node, err := read(filepath.Join(path, "numa_node"))
		if err != nil {
			return 0, false, fmt.Errorf("find NUMA node: %w", err)
		}
		if node >= 0 {
			return node, true, nil
		}
		if path = filepath.Dir(path); !strings.HasPrefix(path, devices+string(filepath.Separator)) {
			return 0, false, nil
		}
	}
}

// OfDeviceFiles returns the nodes of devices by their files, such as
// /dev/dri/card0, ascending and without repeats. Files that are no devices, and
// devices that have no node, contribute nothing.
func OfDeviceFiles(sys string, files []string) ([]int, error) {
	var nodes []int
	var failures []error
	for _, file := range files {
		paths, err := ofDeviceFile(sys, file)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		for _, path := range paths {
			node, known, err := OfPath(sys, path)
			switch {
			case errors.Is(err, fs.ErrNotExist): // a device that sysfs does not show
			case err != nil:
				failures = append(failures, fmt.Errorf("%s: %w", file, err))
			case known:
				nodes = append(nodes, node)
			}
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), errors.Join(failures...)
}

// ofDeviceFile is where sysfs shows the device of file, or the devices behind it. There is
// none if file is no device.
func ofDeviceFile(sys, file string) ([]string, error) {
	var status unix.Stat_t
	if err := unix.Stat(file, &status); err != nil {
		return nil, fmt.Errorf("find NUMA node of %s: %w", file, err)
	}
	kind := map[uint32]string{unix.S_IFCHR: "char", unix.S_IFBLK: "block"}[status.Mode&unix.S_IFMT]
	if kind == "" {
		return nil, nil
	}
	number := fmt.Sprintf("%d:%d", unix.Major(status.Rdev), unix.Minor(status.Rdev))
	paths, err := behind(sys, filepath.Join(sys, "dev", kind, number))
	if err != nil {
		return nil, fmt.Errorf("find NUMA node of %s: %w", file, err)
	}
	return paths, nil
}

// behind are the devices of the IOMMU group if path is a VFIO group, and else path.
func behind(sys, path string) ([]string, error) {
	device, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return []string{path}, nil // OfPath says so
	}
	if err != nil {
		return nil, err
	}
	group := filepath.Base(device)
	if filepath.Base(filepath.Dir(device)) != "vfio" || filepath.Base(filepath.Dir(filepath.Dir(device))) != "virtual" {
		return []string{path}, nil
	}
	if strings.Trim(group, "0123456789") != "" {
		return []string{path}, nil // the container of all groups, /dev/vfio/vfio
	}
	folder := filepath.Join(sys, "kernel", "iommu_groups", group, "devices")
	entries, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // the group was dissolved
	case err != nil:
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		paths = append(paths, filepath.Join(folder, entry.Name()))
	}
	return paths, nil
}

// read returns -1 if there is no such file.
func read(file string) (int, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return node, nil
}
