// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// place says which nodes reach a slice or device, or where an allocation can be used. At most one field is set.
type place struct {
	node      string
	all       bool
	selector  *corev1.NodeSelector
	perDevice bool
}

const (
	onAllNodes   = "all-nodes"
	onEachDevice = "each-device"
	onNodes      = "nodes"
)

// parsePlace reads what follows "on".
func parsePlace(w *words) (place, error) {
	word, err := w.operand("on")
	if err != nil {
		return place{}, err
	}
	switch word {
	case onAllNodes:
		return place{all: true}, nil
	case onEachDevice:
		return place{perDevice: true}, nil
	case onNodes:
		selector, err := parseNodeSelector(w)
		return place{selector: selector}, within("on nodes", err)
	}
	return place{node: word}, nil
}

func (p place) String() string {
	switch {
	case p.selector != nil:
		return " on nodes" + writeNodeSelector(p.selector)
	case p.all:
		return " on " + onAllNodes
	case p.perDevice:
		return " on " + onEachDevice
	case p.node != "":
		return " on " + quote(p.node)
	}
	return ""
}

func (p place) ofSlice(spec *resourceapi.ResourceSliceSpec) {
	spec.NodeName, spec.AllNodes, spec.NodeSelector = p.pointers()
	if p.perDevice {
		spec.PerDeviceNodeSelection = new(true)
	}
}

func (p place) pointers() (node *string, all *bool, selector *corev1.NodeSelector) {
	if p.node != "" {
		node = new(p.node)
	}
	if p.all {
		all = new(true)
	}
	return node, all, p.selector
}

func placeOf(node *string, all, perDevice *bool, selector *corev1.NodeSelector) place {
	p := place{selector: selector}
	if node != nil {
		p.node = *node
	}
	p.all = all != nil && *all
	p.perDevice = perDevice != nil && *perDevice
	return p
}

const (
	fieldPrefix = "field:"
	anyValue    = "*"
)

// nodeOperators are the operators of requirements, with their text. Those that contain others come first.
var nodeOperators = []struct {
	text     string
	operator corev1.NodeSelectorOperator
}{
	{"!=" + anyValue, corev1.NodeSelectorOpDoesNotExist},
	{"=" + anyValue, corev1.NodeSelectorOpExists},
	{"!=", corev1.NodeSelectorOpNotIn},
	{"=", corev1.NodeSelectorOpIn},
	{">", corev1.NodeSelectorOpGt},
	{"<", corev1.NodeSelectorOpLt},
}

// parseNodeSelector reads the requirements of a selector with one term.
func parseNodeSelector(w *words) (*corev1.NodeSelector, error) {
	var term corev1.NodeSelectorTerm
	for strings.ContainsAny(w.peek(), "=<>") {
		word := w.next()
		requirement, err := parseRequirement(strings.TrimPrefix(word, fieldPrefix))
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(word, fieldPrefix) {
			term.MatchFields = append(term.MatchFields, requirement)
		} else {
			term.MatchExpressions = append(term.MatchExpressions, requirement)
		}
	}
	if len(term.MatchFields)+len(term.MatchExpressions) == 0 {
		return nil, fmt.Errorf("expected a requirement such as zone=a, found %q", w.peek())
	}
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}, nil
}

func parseRequirement(word string) (corev1.NodeSelectorRequirement, error) {
	for _, op := range nodeOperators {
		key, values, found := strings.Cut(word, op.text)
		switch {
		case !found || key == "" || strings.ContainsAny(key, "!=<>"):
		case strings.HasSuffix(op.text, anyValue):
			if values == "" {
				return corev1.NodeSelectorRequirement{Key: key, Operator: op.operator}, nil
			}
		default:
			list, err := commaList[string](values)
			return corev1.NodeSelectorRequirement{Key: key, Operator: op.operator, Values: list}, within(key, err)
		}
	}
	return corev1.NodeSelectorRequirement{}, fmt.Errorf("%q is no requirement", word)
}

func writeNodeSelector(selector *corev1.NodeSelector) string {
	var b strings.Builder
	for _, term := range selector.NodeSelectorTerms {
		for _, requirement := range term.MatchFields {
			b.WriteString(" " + fieldPrefix + writeRequirement(requirement))
		}
		for _, requirement := range term.MatchExpressions {
			b.WriteString(" " + writeRequirement(requirement))
		}
	}
	return b.String()
}

func writeRequirement(r corev1.NodeSelectorRequirement) string {
	for _, op := range nodeOperators {
		if op.operator == r.Operator {
			return r.Key + op.text + quoteAll(r.Values)
		}
	}
	return r.Key + " " + string(r.Operator)
}

// soleNode is the name of the node to which a selector restricts an allocation, empty if it is any other
// selector.
func soleNode(selector *corev1.NodeSelector) string {
	if selector == nil || len(selector.NodeSelectorTerms) != 1 {
		return ""
	}
	term := selector.NodeSelectorTerms[0]
	if len(term.MatchExpressions) > 0 || len(term.MatchFields) != 1 {
		return ""
	}
	field := term.MatchFields[0]
	if field.Key != "metadata.name" || field.Operator != corev1.NodeSelectorOpIn || len(field.Values) != 1 {
		return ""
	}
	return field.Values[0]
}
