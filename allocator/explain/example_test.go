// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"

	"github.com/dray-project/dray/allocator/explain"
)

// Explanations of many nodes are summed up by what is in conflict.
func ExampleGrouping() {
	var all explain.Grouping
	for i, node := range []string{"node-a", "node-b", "node-c"} {
		all.Add(&explain.Explanation{
			Node: node, Summary: fmt.Sprintf("node %s: request gpus needs 4 devices, %d are free", node, i+1),
			Core: []explain.CoreItem{{Claim: "default/training", Request: "gpus", Text: "request gpus needs 4 devices"}},
		}, node)
	}
	for _, group := range all.Groups() {
		fmt.Println(len(group.Nodes), "nodes:", group.Statement())
	}
	// Output: 3 nodes: this cannot be met, with the figures of node-a, which comes closest
}
