// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/internal/keys"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/reads"
	"github.com/dray-project/dray/nodefit"
)

// NodeFit is a rule about pods and nodes, whatever devices and resources the nodes have. The zero value is
// nodefit.Fits with nodefit.Key: taints, node selector and node affinity.
type NodeFit struct {
	// Fits tells whether a pod may run on a node. It is asked once per kind of pods and node, and so must give
	// equal answers for pods with equal keys, and for one node. An error about a node without anything is one
	// about the pod; later ones are a no. Nil is nodefit.Fits.
	Fits func(pod *corev1.Pod, node *corev1.Node) (bool, error)
	// Key is what Fits reads of a pod. Without it, answers are shared by pods that differ in nothing but
	// metadata.name, uid, resourceVersion, managedFields and status, of which Fits then must read nothing: so
	// pods with other labels, owners or times of creation are asked about by themselves. Without Fits it is not asked.
	Key func(pod *corev1.Pod) string
}

// complete is the rule with both functions.
func (f NodeFit) complete() NodeFit {
	switch {
	case f.Fits == nil:
		return NodeFit{Fits: nodefit.Fits, Key: nodefit.Key}
	case f.Key == nil:
		f.Key = wholePod
	}
	return f
}

// wholePod is a pod without what tells it from its equals.
func wholePod(pod *corev1.Pod) string {
	same := corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	same.Name, same.UID, same.ResourceVersion, same.ManagedFields = "", types.UID(""), "", nil
	k := memo.NewKey()
	keys.AppendWhole(&k, &same)
	return string(k.Bytes)
}

// podKey is what tells kinds of pods apart. Whatever else is read of podKind.example, or of a pod in its place, needs a part
// here.
var podKey = keys.Writer[*podKind]{
	{Covers: keys.Rows(reads.Pod, "Spec.NodeSelector[]", "Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution", "Spec.Tolerations[]"), Write: func(k *memo.Key, p *podKind) {
		k.Text(p.world.nodeFit.Key(p.example))
	}},
	{
		Covers: append(keys.Rows(reads.Pod, "Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution",
			"Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution", "Spec.TopologySpreadConstraints[]", "Spec.Volumes[]",
			"Spec.SchedulingGates[]", "Spec.SchedulerName", "Spec.HostNetwork"), ofContainers("Ports[]")...),
		Write: func(k *memo.Key, p *podKind) {
			k.Number(len(p.notLookedAt))
			for _, aspect := range p.notLookedAt {
				k.Text(aspect)
			}
		},
	},
	{Covers: keys.Rows(reads.Pod, "Spec.ResourceClaims[]"), Write: func(k *memo.Key, p *podKind) {
		k.Number(len(p.entries))
		for _, e := range p.entries {
			k.Text(e.spec.Key)
			k.Number(int(e.claim) + 1)
		}
	}},
	{Covers: ofContainers("Resources.Requests[]"), Write: func(k *memo.Key, p *podKind) { // the requests of devices for extended resources
		k.Number(len(p.extended))
		for _, e := range p.extended {
			k.Text(string(e.name))
			k.Text(e.spec.Key)
		}
	}},
	{Covers: append(keys.Rows(reads.Pod, "Spec.Overhead[]", "Spec.Resources.Requests[]"), append(keys.Rows(reads.Pod, "Spec.InitContainers[].RestartPolicy"), ofContainers("Resources.Requests[]")...)...), Write: func(k *memo.Key, p *podKind) {
		k.Number(len(p.demands))
		for _, d := range p.demands {
			k.Number(d.resource)
			k.Number(int(d.value))
		}
	}},
}

// ofContainers are the rows of fields of containers.
func ofContainers(fields ...string) (rows []keys.Row) {
	for _, field := range fields {
		rows = append(rows, keys.Rows(reads.Pod, "Spec.Containers[]."+field, "Spec.InitContainers[]."+field)...)
	}
	return rows
}

// ownKey is equal for pods that ask for the same.
func (k *podKind) ownKey() string {
	key := memo.NewKey()
	podKey.Append(&key, k)
	return string(key.Bytes)
}

// fits is the rule about a pod and a node.
func (w *world) fits(pod *corev1.Pod, node *corev1.Node) (bool, error) {
	return w.nodeFit.Fits(pod, node)
}
