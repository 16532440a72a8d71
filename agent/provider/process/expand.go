// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "github.com/dray-project/dray/agent/internal/expansion"

// expand replaces references to variables in a text of a container.
func expand(text string, variables map[string]string) string {
	return expansion.Expand(text, variables)
}

// expandAll expands a list.
func expandAll(texts []string, variables map[string]string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = expand(text, variables)
	}
	return out
}
