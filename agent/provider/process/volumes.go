// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/agent/provider/process/internal/supervisor"
)

// The modes of an emptyDir's folder as kubelet has them: on the disk, and in memory, which is a tmpfs
// with its own.
const (
	defaultMode       = 0o777
	defaultMemoryMode = 0o1777
)

// volumesOf returns the volumes of a pod.
func volumesOf(pod *corev1.Pod) []supervisor.Volume {
	var out []supervisor.Volume
	context := ptr.Deref(pod.Spec.SecurityContext, corev1.PodSecurityContext{})
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if isToken(volume) {
			continue
		}
		dir := ptr.Deref(volume.EmptyDir, corev1.EmptyDirVolumeSource{})
		made := supervisor.Volume{Name: volume.Name, Memory: dir.Medium == corev1.StorageMediumMemory, Mode: defaultMode}
		switch {
		case dir.Mode != nil:
			made.Mode = uint32(*dir.Mode) & 0o1777
		case made.Memory:
			made.Mode = defaultMemoryMode
		}
		if dir.SizeLimit != nil && made.Memory {
			made.Size = dir.SizeLimit.Value()
		}
		if context.FSGroup != nil {
			group := uint32(*context.FSGroup) // identityOf checks that the group is permitted
			made.Group = &group
		}
		out = append(out, made)
	}
	return out
}

// mountsOf returns the volume mounts of a container.
func (p *Provider) mountsOf(pod *corev1.Pod, container *corev1.Container) ([]supervisor.Mount, error) {
	var out []supervisor.Mount
	for i := range container.VolumeMounts {
		mount := &container.VolumeMounts[i]
		if mount.MountPath == serviceAccountPath {
			continue
		}
		at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if at < 0 || isToken(&pod.Spec.Volumes[at]) {
			return nil, errdefs.InvalidInputf("volumeMounts[%s].name: the pod has no such volume for processes", mount.Name)
		}
		where := path.Join("/", mount.MountPath)
		found, err := os.Stat(where)
		if err != nil || !found.IsDir() || where == "/" {
			return nil, errdefs.InvalidInputf("volumeMounts[%s].mountPath: %s: is not a folder of this machine below /: processes see its files, and none is made there", mount.Name, where)
		}
		out = append(out, supervisor.Mount{Folder: supervisor.VolumeFolder(p.folderOf(pod), mount.Name), Path: where, ReadOnly: mount.ReadOnly})
	}
	return out, nil
}
