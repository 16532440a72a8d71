// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/podclaims"
)

// NodeResourceSlices returns the slices of a node, as they were added, and whether the node has an entry.
func (s *Snapshot) NodeResourceSlices(nodeName string) ([]*resourceapi.ResourceSlice, bool) {
	of, found := s.slices.now[nodeName]
	return of.given, found && nodeName != ofNoNode
}

// AddNodeResourceSlices adds the slices of a node. It is an error if the node already has an entry.
func (s *Snapshot) AddNodeResourceSlices(nodeName string, added []*resourceapi.ResourceSlice) error {
	if nodeName == ofNoNode {
		return fmt.Errorf("add %d resource slices: the name of the node is empty", len(added))
	}
	if _, found := s.slices.now[nodeName]; found {
		return fmt.Errorf("node %s: its resource slices are in the snapshot already", nodeName)
	}
	s.publish(nodeName, added)
	return nil
}

// publish stores the slices of a node, and appends them to the list.
func (s *Snapshot) publish(node string, added []*resourceapi.ResourceSlice) {
	s.list = append(s.list, s.keep(node, added)...)
}

// publishAll rebuilds the list from the slices of all nodes.
func (s *Snapshot) publishAll(byNode map[string][]*resourceapi.ResourceSlice) {
	s.list = nil
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		s.list = append(s.list, s.keep(node, byNode[node])...)
	}
}

// keep stores the slices of a node, and returns them with their taints.
func (s *Snapshot) keep(node string, added []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	of := published{given: added, tainted: podclaims.ApplyTaintRules(added, s.rules)}
	s.slices.set(node, of)
	return of.tainted
}

// RemoveNodeResourceSlices removes the slices of a node, if it has some.
func (s *Snapshot) RemoveNodeResourceSlices(nodeName string) {
	of, found := s.slices.now[nodeName]
	if !found || nodeName == ofNoNode {
		return
	}
	s.slices.delete(nodeName)
	s.list = slices.DeleteFunc(slices.Clone(s.list), func(slice *resourceapi.ResourceSlice) bool {
		return slices.Contains(of.tainted, slice)
	})
}
