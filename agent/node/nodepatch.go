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

// The annotations in which a node keeps what its controller wrote last. Without them, it
// could not tell what it wrote from what others did. They have the names that
// virtual-kubelet gave them, so that either can take over the other's nodes.
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

// wanted is the controller's part of a node, with what the node has to keep of it.
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

// applied is what the controller wrote last, or the one before it did. If somebody
// damaged the record, nothing is the controller's, and what it would remove stays.
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

// statusPatch is the strategic merge patch that makes of a stored node what the
// provider's is like. It adds and changes what the provider has, removes what it had when
// the controller wrote last and has no more, and leaves everything else alone.
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
