// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Annotations with what the controller wrote last. They tell fields that the controller wrote from
// those of other writers. The names are virtual-kubelet's, so that one can adopt nodes of the
// other.
const (
	appliedStatus = "virtual-kubelet.io/last-applied-node-status"
	appliedMeta   = "virtual-kubelet.io/last-applied-object-meta"
)

// owned is the part of a node that its controller writes.
type owned struct {
	Metadata ownedMeta         `json:"metadata"`
	Status   corev1.NodeStatus `json:"status"`
}

type ownedMeta struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// wanted returns the fields that the controller writes. Among them are the annotations that record
// these fields.
func wanted(node *corev1.Node) (*owned, error) {
	meta := ownedMeta{Labels: node.Labels, Annotations: maps.Clone(node.Annotations)}
	delete(meta.Annotations, appliedStatus)
	delete(meta.Annotations, appliedMeta)
	status, err := json.Marshal(&node.Status)
	if err != nil {
		return nil, err
	}
	metadata, err := json.Marshal(&meta)
	if err != nil {
		return nil, err
	}
	if meta.Annotations == nil {
		meta.Annotations = make(map[string]string)
	}
	meta.Annotations[appliedStatus] = string(status)
	meta.Annotations[appliedMeta] = string(metadata)
	return &owned{Metadata: meta, Status: node.Status}, nil
}

// applied returns what this controller or one before it wrote last. If the annotations are damaged,
// the result is empty, and the next patch removes no fields.
func applied(stored *corev1.Node) *owned {
	var was owned
	if json.Unmarshal([]byte(stored.Annotations[appliedStatus]), &was.Status) != nil {
		was.Status = corev1.NodeStatus{}
	}
	if json.Unmarshal([]byte(stored.Annotations[appliedMeta]), &was.Metadata) != nil {
		was.Metadata = ownedMeta{}
	}
	return &was
}

// statusPatch returns the strategic merge patch from the stored node to the provider's node. The
// patch sets fields that the provider has. It removes fields that the controller wrote last and the
// provider no longer has. It does not touch other fields.
func statusPatch(fromProvider, stored *corev1.Node) ([]byte, error) {
	want, err := wanted(fromProvider)
	if err != nil {
		return nil, fmt.Errorf("node %s: status: %w", fromProvider.Name, err)
	}
	current := &owned{Metadata: ownedMeta{stored.Labels, stored.Annotations}, Status: stored.Status}
	var versions [3][]byte
	for i, version := range []*owned{applied(stored), want, current} {
		if versions[i], err = json.Marshal(version); err != nil {
			return nil, fmt.Errorf("node %s: status: %w", fromProvider.Name, err)
		}
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(corev1.Node{})
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(versions[0], versions[1], versions[2], schema, true)
	if err != nil {
		return nil, fmt.Errorf("node %s: status: %w", fromProvider.Name, err)
	}
	return patch, nil
}
