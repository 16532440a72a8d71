// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// VolumeFolder returns the path of a volume, below the folder of its pod.
func VolumeFolder(folder, name string) string { return filepath.Join(folder, volumes, name) }

// makeVolumes makes the folders of volumes that do not exist yet.
func makeVolumes(folder string, plan *Plan) error {
	for i := range plan.Volumes {
		path := VolumeFolder(folder, plan.Volumes[i].Name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		if err := plan.Volumes[i].own(path); err != nil {
			return fmt.Errorf("volume %s: %w", plan.Volumes[i].Name, err)
		}
	}
	return nil
}

// setGID is the bit by which new files inherit the group of their folder.
const setGID = 0o2000

// own sets the group and the permissions of a volume, as kubelet does.
func (v *Volume) own(path string) error {
	mode := v.Mode
	if v.Group != nil {
		if err := os.Chown(path, -1, int(*v.Group)); err != nil {
			return err
		}
		mode |= setGID | 0o070
	}
	return unix.Chmod(path, mode) // chmod, since the umask applies to mkdir
}

// mountMemory mounts a tmpfs for each volume in memory. It disappears with the supervisor's mount
// namespace.
func mountMemory(folder string, plan *Plan) error {
	for i := range plan.Volumes {
		volume := &plan.Volumes[i]
		if !volume.Memory {
			continue
		}
		path, options := VolumeFolder(folder, volume.Name), ""
		if volume.Size > 0 {
			options = fmt.Sprintf("size=%d", volume.Size)
		}
		if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
			return fmt.Errorf("volume %s: mount: %w", volume.Name, err)
		}
		if err := volume.own(path); err != nil {
			return fmt.Errorf("volume %s: %w", volume.Name, err)
		}
	}
	return nil
}

// bind bind-mounts the volumes of a container. Mounts within others come after them.
func bind(mounts []Mount) error {
	mounts = slices.Clone(mounts)
	slices.SortStableFunc(mounts, func(a, b Mount) int { return len(a.Path) - len(b.Path) })
	for _, mount := range mounts {
		if err := unix.Mount(mount.Folder, mount.Path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", mount.Path, err)
		}
		rights := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Attr_clr: unix.MOUNT_ATTR_RDONLY}
		if mount.ReadOnly {
			rights.Attr_set, rights.Attr_clr = rights.Attr_set|unix.MOUNT_ATTR_RDONLY, 0
		}
		if err := unix.MountSetattr(unix.AT_FDCWD, mount.Path, 0, rights); err != nil {
			return fmt.Errorf("mount %s: %w", mount.Path, err)
		}
	}
	return nil
}
