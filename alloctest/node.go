// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

func parseNode(b block) (*corev1.Node, error) {
	w := b.words()
	w.next()
	name, err := w.operand("node")
	if err != nil {
		return nil, err
	}
	node := &corev1.Node{}
	node.Name = name
	err = w.pairs(func(key, value string) error {
		if node.Labels == nil {
			node.Labels = make(map[string]string)
		}
		var err error
		node.Labels[key], err = unquote(value)
		return err
	})
	if err == nil {
		err = b.clauses(w, func(clause string, w *words) error { return nodeClause(node, clause, w) })
	}
	return node, within("node "+name, err)
}

func nodeClause(node *corev1.Node, clause string, w *words) (err error) {
	if clause != "declares" {
		return fmt.Errorf("unknown clause %q", clause)
	}
	node.Status.DeclaredFeatures, err = commaList[string](w.next())
	return within(clause, err)
}

func writeNode(node *corev1.Node) []string {
	line := "node " + quote(node.Name)
	sorted(node.Labels, func(key, value string) { line += " " + key + "=" + quote(value) })
	if features := node.Status.DeclaredFeatures; len(features) > 0 {
		line += " declares " + quoteAll(features)
	}
	return []string{line}
}
