// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import "github.com/dray-project/dray/simulate/internal/onenode"

// MemoryOptions bound what all States of one Open, and of its updates, remember from one call to the next. What there would be
// too much of is forgotten. Answers do not depend on it, but for those that the budget ends. Of a number, zero or less is the
// default.
type MemoryOptions struct {
	// Off has nothing remembered but compiled expressions. It is for tests, and for those who want to know what
	// remembering saves.
	Off bool
	// Questions is how many different claims, and questions of several claims, are kept. The default is 32,768.
	Questions int
	// Kinds is how many kinds of pods are kept, with what is known of them for each node. The default is 4,096.
	Kinds int
	// Nodes is how many nodes are told apart by their devices. The default is 131,072.
	Nodes int
	// States is how many states of equal nodes are kept: what is in use. The default is 65,536.
	States int
	// Answers is how many answers are kept about one state. The default is 1,024, the least 32.
	Answers int
}

// usualMemory has the defaults. Tests change them.
var usualMemory = MemoryOptions{Questions: 1 << 15, Kinds: 1 << 12, Nodes: 1 << 17, States: 1 << 16, Answers: 1 << 10}

// withDefaults has defaults for what is not set, and no bounds that are off.
func (o MemoryOptions) withDefaults() MemoryOptions {
	if o.Off || usualMemory.Off {
		return MemoryOptions{Off: true}
	}
	for _, bound := range []struct {
		of      *int
		usually int
	}{
		{&o.Questions, usualMemory.Questions}, {&o.Kinds, usualMemory.Kinds},
		{&o.Nodes, usualMemory.Nodes}, {&o.States, usualMemory.States}, {&o.Answers, usualMemory.Answers},
	} {
		if *bound.of <= 0 {
			*bound.of = bound.usually
		}
	}
	return o
}

func (o MemoryOptions) bounds() onenode.Bounds {
	return onenode.Bounds{Questions: o.Questions, Nodes: o.Nodes, States: o.States, Answers: o.Answers}
}
