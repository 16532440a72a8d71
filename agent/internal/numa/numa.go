// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package numa finds the NUMA node of a device in sysfs.
//
// A device on a bus has a file numa_node, with -1 if the firmware does not tell. Child devices,
// such as character devices, have no such file. So the NUMA node of a device is that of its nearest
// ancestor that has one.
//
// A VFIO group, /dev/vfio/N, has no ancestor on a bus. Its NUMA nodes are those of the devices in
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

// OfPath returns the NUMA node of the device at path, which is a folder below sys or a link to one.
// It returns false if no NUMA node is known for the device or an ancestor.
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

// OfDeviceFiles returns the NUMA nodes of devices, given their files, such as /dev/dri/card0. They
// are sorted, without duplicates. Files that are no devices, and devices without a NUMA node, are
// ignored.
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
			case errors.Is(err, fs.ErrNotExist): // the device is not in sysfs
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

// ofDeviceFile returns the sysfs paths of a device file's devices. There are none if the file is no
// device.
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

// behind returns the devices of the IOMMU group if path is a VFIO group, or else path itself.
func behind(sys, path string) ([]string, error) {
	device, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return []string{path}, nil // OfPath returns the error
	}
	if err != nil {
		return nil, err
	}
	group := filepath.Base(device)
	if filepath.Base(filepath.Dir(device)) != "vfio" || filepath.Base(filepath.Dir(filepath.Dir(device))) != "virtual" {
		return []string{path}, nil
	}
	if strings.Trim(group, "0123456789") != "" {
		return []string{path}, nil // /dev/vfio/vfio, which is no group
	}
	folder := filepath.Join(sys, "kernel", "iommu_groups", group, "devices")
	entries, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // the group was removed
	case err != nil:
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		paths = append(paths, filepath.Join(folder, entry.Name()))
	}
	return paths, nil
}

// read returns the content of a file numa_node, or -1 if the file does not exist.
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
