// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/keys"
)

// CheckSelectors returns an error for node selectors that cannot be merged. The API does not allow them.
func (s *Solution) CheckSelectors() error {
	settled := -1 // the claim that has a device local to the node, which settles its selector
	var buffer [pickBuffer]pick
	for _, p := range s.picks(buffer[:0]) {
		local, selector := keys.Reach(p.device)
		if local || p.Claim == settled {
			settled = p.Claim
			continue
		}
		if selector != nil && len(selector.NodeSelectorTerms) > 1 {
			path, problem := s.Compiled.Path(p.Alternative), fmt.Sprintf("node selector has %d terms, only one is supported", len(selector.NodeSelectorTerms))
			return &pool.NamedError{Text: fmt.Sprintf("%s: device %s: %s", path, p.id(), problem), General: path + ": " + problem}
		}
	}
	return nil
}

// nodeSelector says where the devices of a claim can be used together. If any device is local to the node, that
// is this node, else all nodes that match the selectors of all devices. Nil means all nodes. Made is memory for
// the selector, or nil.
func (s *Solution) nodeSelector(picks []pick, made *nodeNamed) *corev1.NodeSelector {
	var term corev1.NodeSelectorTerm
	for i := range picks {
		local, selector := keys.Reach(picks[i].device)
		if local {
			if made == nil {
				made = new(nodeNamed)
			}
			return made.set(s.View.Node.Name)
		}
		if selector == nil || len(selector.NodeSelectorTerms) == 0 {
			continue
		}
		term.MatchFields = union(term.MatchFields, selector.NodeSelectorTerms[0].MatchFields)
		term.MatchExpressions = union(term.MatchExpressions, selector.NodeSelectorTerms[0].MatchExpressions)
	}
	if len(term.MatchFields) == 0 && len(term.MatchExpressions) == 0 {
		return nil
	}
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}
}

// nodeNamed holds all parts of a selector for one node, in one allocation.
type nodeNamed struct {
	selector corev1.NodeSelector
	terms    [1]corev1.NodeSelectorTerm
	fields   [1]corev1.NodeSelectorRequirement
	values   [1]string
}

func (n *nodeNamed) set(name string) *corev1.NodeSelector {
	n.values[0] = name
	n.fields[0] = corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: n.values[:]}
	n.terms[0].MatchFields = n.fields[:]
	n.selector.NodeSelectorTerms = n.terms[:]
	return &n.selector
}

// union appends the requirements that are not in the list yet. The order of their values does not matter.
func union(have, add []corev1.NodeSelectorRequirement) []corev1.NodeSelectorRequirement {
	for _, requirement := range add {
		same := func(other corev1.NodeSelectorRequirement) bool {
			return other.Key == requirement.Key && other.Operator == requirement.Operator &&
				sets.New(other.Values...).Equal(sets.New(requirement.Values...))
		}
		if !slices.ContainsFunc(have, same) {
			have = append(have, requirement)
		}
	}
	return have
}
