// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"encoding/binary"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
	text, err := same.Marshal()
	if err != nil {
		panic("pod " + pod.Name + " cannot be encoded: " + err.Error()) // it is plain data
	}
	return string(text)
}

// keyPart writes a part of what tells kinds of pods apart. Each part says itself where it ends.
type keyPart struct {
	of    string
	write func(w *world, k *podKind, key []byte) []byte
}

// keyParts are all that answers about a kind depend on. Whatever else is read of podKind.example, or of a pod in its
// place, needs a part here.
var keyParts = []keyPart{
	{"node fit", func(w *world, k *podKind, key []byte) []byte {
		return strconv.AppendQuote(key, w.nodeFit.Key(k.example))
	}},
	{"what is not looked at", func(_ *world, k *podKind, key []byte) []byte {
		key = binary.AppendUvarint(key, uint64(len(k.notLookedAt)))
		for _, aspect := range k.notLookedAt {
			key = strconv.AppendQuote(key, aspect)
		}
		return key
	}},
	{"claims", func(_ *world, k *podKind, key []byte) []byte {
		key = binary.AppendUvarint(key, uint64(len(k.entries)))
		for _, e := range k.entries {
			key = binary.AppendVarint(binary.AppendUvarint(key, uint64(e.spec.ID)), int64(e.claim))
		}
		return key
	}},
	{"extended resources", func(_ *world, k *podKind, key []byte) []byte {
		key = binary.AppendUvarint(key, uint64(len(k.extended)))
		for _, e := range k.extended {
			key = binary.AppendUvarint(strconv.AppendQuote(key, string(e.name)), uint64(e.spec.ID))
		}
		return key
	}},
	{"resources", func(_ *world, k *podKind, key []byte) []byte {
		key = binary.AppendUvarint(key, uint64(len(k.demands)))
		for _, d := range k.demands {
			key = binary.AppendVarint(binary.AppendUvarint(key, uint64(d.resource)), d.value)
		}
		return key
	}},
}

// key is equal for pods that ask for the same.
func (w *world) key(k *podKind) string {
	var key []byte
	for _, part := range keyParts {
		key = part.write(w, k, key)
	}
	return string(key)
}

// fits is the rule about a pod and a node.
func (w *world) fits(pod *corev1.Pod, node *corev1.Node) (bool, error) {
	return w.nodeFit.Fits(pod, node)
}
