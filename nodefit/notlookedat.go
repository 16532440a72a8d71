// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodefit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// SchedulingGates is the phrase of NotLookedAt for spec.schedulingGates.
const SchedulingGates = "scheduling gates"

// NotLookedAt names the parts of a pod's spec that kube-scheduler checks, and that neither this package nor the
// allocation of devices does. Whether the pod can be placed may depend on them. Each is a phrase such as "host
// ports"; most pods have none. Constraints in other pods, such as anti-affinity against this one, are not
// included.
func NotLookedAt(pod *corev1.Pod) []string {
	var aspects []string
	add := func(has bool, aspect string) {
		if has {
			aspects = append(aspects, aspect)
		}
	}
	spec := &pod.Spec
	if affinity := spec.Affinity; affinity != nil {
		add(affinity.PodAffinity != nil && len(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0, "pod affinity")
		add(affinity.PodAntiAffinity != nil && len(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0, "pod anti-affinity")
	}
	add(slices.ContainsFunc(spec.TopologySpreadConstraints, func(t corev1.TopologySpreadConstraint) bool {
		return t.WhenUnsatisfiable != corev1.ScheduleAnyway
	}), "topology spread constraints")
	hasHostPort := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 || spec.HostNetwork && p.ContainerPort != 0 })
	}
	add(slices.ContainsFunc(spec.Containers, hasHostPort) || slices.ContainsFunc(spec.InitContainers, hasHostPort), "host ports")
	add(slices.ContainsFunc(spec.Volumes, binds), "volumes")
	add(len(spec.SchedulingGates) > 0, SchedulingGates)
	add(spec.SchedulerName != "" && spec.SchedulerName != corev1.DefaultSchedulerName, "the scheduler "+spec.SchedulerName)
	return aspects
}

// binds reports whether a volume may keep a pod from a node: by its location, its other users, or a limit on
// their number.
func binds(v corev1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil ||
		v.AzureDisk != nil || v.Cinder != nil || v.ISCSI != nil || v.RBD != nil
}
