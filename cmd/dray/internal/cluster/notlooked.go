package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	podresources "k8s.io/component-helpers/resource"

	"github.com/dray-project/dray/podclaims"
)

// NotLookedAt names what of a pod kube-scheduler looks at and Dray does not, if the pod has
// any of it: whether it can be placed may depend on that.
func (c *Cluster) NotLookedAt(pod *corev1.Pod) []string {
	if pod == nil {
		return nil
	}
	var aspects []string
	add := func(has bool, aspect string) {
		if has {
			aspects = append(aspects, aspect)
		}
	}
	affinity := pod.Spec.Affinity
	add(affinity != nil && affinity.PodAffinity != nil && len(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0, "pod affinity")
	add(affinity != nil && affinity.PodAntiAffinity != nil && len(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0, "pod anti-affinity")
	add(slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(t corev1.TopologySpreadConstraint) bool {
		return t.WhenUnsatisfiable == corev1.DoNotSchedule
	}), "topology spread constraints")
	add(slices.ContainsFunc(pod.Spec.Containers, hasHostPort), "host ports")
	add(slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	}), "volumes")
	add(c.resourcesUnknown(pod), "cpu, memory and other resources (nodes without status.allocatable)")
	return aspects
}

func hasHostPort(container corev1.Container) bool {
	return slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 })
}

// resourcesUnknown reports whether the pod asks for resources of which some node does not
// say how much it has.
func (c *Cluster) resourcesUnknown(pod *corev1.Pod) bool {
	asks := false
	for name, quantity := range podresources.PodRequests(pod, podresources.PodResourcesOptions{}) {
		asks = asks || !quantity.IsZero() && !podclaims.IsExtended(name)
	}
	return asks && slices.ContainsFunc(c.Nodes, func(node *corev1.Node) bool { return len(node.Status.Allocatable) == 0 })
}
