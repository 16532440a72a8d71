package cluster

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/nodefit"
)

// nodeUse is what pods ask of the resources of a node.
type nodeUse map[corev1.ResourceName]resource.Quantity

// addPod charges the requests of a pod to its node. Extended resources for which devices
// stand are not charged.
func (c *Cluster) addPod(pod *corev1.Pod, node string, fromDevices []corev1.ResourceName) {
	use := c.used[node]
	if use == nil {
		use = make(nodeUse)
		c.used[node] = use
	}
	for name, quantity := range nodefit.Needs(pod) {
		if slices.Contains(fromDevices, name) {
			continue
		}
		sum := use[name]
		sum.Add(quantity)
		use[name] = sum
	}
}

// shortOf says what of its resources the node has too little for the pod; empty if it has
// enough. Of a node without status.allocatable nothing is known.
func (c *Cluster) shortOf(needs []need, node *corev1.Node, fromDevices []corev1.ResourceName) reason {
	if len(node.Status.Allocatable) == 0 {
		return reason{}
	}
	for _, n := range needs {
		name, needed := n.name, n.quantity
		total, listed := node.Status.Allocatable[name]
		if needed.IsZero() || slices.Contains(fromDevices, name) || !listed && !mustBeListed(name) {
			continue
		}
		left := total.DeepCopy()
		left.Sub(c.used[node.Name][name])
		if needed.Cmp(left) > 0 {
			return tooLittle(shortage{name, needed, left, total})
		}
	}
	return reason{}
}

// mustBeListed reports whether a node that does not list a resource has none of it. The
// number of pods is often left out of manifests.
func mustBeListed(name corev1.ResourceName) bool { return name != corev1.ResourcePods }

// need is what a pod asks of one resource.
type need struct {
	name     corev1.ResourceName
	quantity resource.Quantity
}

// needsOf lists what a pod needs, by name.
func needsOf(pod *corev1.Pod) []need {
	var needs []need
	for name, quantity := range nodefit.Needs(pod) {
		needs = append(needs, need{name, quantity})
	}
	slices.SortFunc(needs, func(a, b need) int { return cmp.Compare(a.name, b.name) })
	return needs
}
