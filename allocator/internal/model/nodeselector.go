package model

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/index/pool"
)

// Reach is where a device can be used: on one node, on nodes that a selector matches, or, with
// neither, everywhere.
func Reach(d *pool.Device) (local bool, selector *corev1.NodeSelector) {
	spec := &d.Slice.Object.Spec
	name, selector := spec.NodeName, spec.NodeSelector
	if ptr.Deref(spec.PerDeviceNodeSelection, false) {
		name, selector = d.Object.NodeName, d.Object.NodeSelector
	}
	return name != nil || ptr.Deref(d.Object.BindsToNode, false), selector
}

// CheckSelectors refuses selectors that cannot be merged. The API does not allow them.
func (s *Solution) CheckSelectors() error {
	settled := -1 // the claim that is local to the node, whatever comes after
	var buffer [pickBuffer]pick
	for _, p := range s.picks(buffer[:0]) {
		local, selector := Reach(p.device)
		if local || p.Claim == settled {
			settled = p.Claim
			continue
		}
		if selector != nil && len(selector.NodeSelectorTerms) > 1 {
			return fmt.Errorf("%s: device %s: node selector has %d terms, only one is supported",
				s.Problem.Path(p.Alternative), idOf(p.pool, p.device), len(selector.NodeSelectorTerms))
		}
	}
	return nil
}

// nodeSelector says where the claim's devices can be used together: on this node if any of them is
// local to it, else where all their selectors match. Nil is everywhere.
func (s *Solution) nodeSelector(picks []pick, claim int) *corev1.NodeSelector {
	var term corev1.NodeSelectorTerm
	for i := range picks {
		if picks[i].Claim != claim {
			continue
		}
		local, selector := Reach(picks[i].device)
		if local {
			return nodeNamed(s.View.Node.Name)
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

// nodeNamed makes all parts in one piece: most results have one.
func nodeNamed(name string) *corev1.NodeSelector {
	made := &struct {
		selector corev1.NodeSelector
		terms    [1]corev1.NodeSelectorTerm
		fields   [1]corev1.NodeSelectorRequirement
		values   [1]string
	}{values: [1]string{name}}
	made.fields[0] = corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: made.values[:]}
	made.terms[0].MatchFields = made.fields[:]
	made.selector.NodeSelectorTerms = made.terms[:]
	return &made.selector
}

// union appends the requirements that are not there yet, whatever the order of their values.
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
