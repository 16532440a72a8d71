// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"errors"

	resourceapi "k8s.io/api/resource/v1"
)

// clauses reads the clauses of a statement, on its own line or on the lines below it. Each call of the function
// each consumes one clause.
func (b block) clauses(w *words, each func(clause string, w *words) error) error {
	if err := lineClauses(w, each); err != nil {
		return at(b.line, err)
	}
	children, err := b.children()
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := lineClauses(child.words(), each); err != nil {
			return at(child.line, err)
		}
		if len(child.body) > 0 {
			return &located{child.body[0].line, errors.New("line is indented below a clause, which has no parts")}
		}
	}
	return nil
}

func lineClauses(w *words, each func(clause string, w *words) error) error {
	for clause := w.next(); clause != ""; clause = w.next() {
		if err := each(clause, w); err != nil {
			return err
		}
	}
	return nil
}

// parseSelector reads the CEL expression after "where", up to the end of the line.
func parseSelector(w *words) (resourceapi.DeviceSelector, error) {
	expression := w.rest()
	if expression == "" {
		return resourceapi.DeviceSelector{}, errors.New("expression missing")
	}
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}, nil
}

func writeSelectors(selectors []resourceapi.DeviceSelector) []string {
	var lines []string
	for _, selector := range selectors {
		if selector.CEL != nil {
			lines = append(lines, "where "+selector.CEL.Expression)
		}
	}
	return lines
}

// indented indents lines by one level.
func indented(lines []string) []string {
	for i, line := range lines {
		lines[i] = "  " + line
	}
	return lines
}
