// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "github.com/dray-project/dray/agent/internal/expansion"

// expand replaces references to variables, such as $(NAME), in a string of a container's spec.
func expand(text string, variables map[string]string) string {
	return expansion.Expand(text, variables)
}

// expandAll expands each string of a list.
func expandAll(texts []string, variables map[string]string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = expand(text, variables)
	}
	return out
}
