// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package alloctest is the acceptance suite of device allocation: scenario files that
// read like documentation, and a runner that asks any allocator for their answers.
//
//	func TestMyAllocator(t *testing.T) {
//		alloctest.Run(t, func(ctx context.Context, c *alloctest.Case) alloctest.Outcome {
//			...
//		})
//	}
//
// A scenario is a cluster, the claims to allocate on one of its nodes, and the
// outcome. The files are in the folder scenarios, one topic per file; README.md
// describes their language; rules.md lists the rules they prove.
//
// Scenarios are data, too: [Scenarios] yields them parsed, [Parse] reads other
// files, [Format] writes a [Case] as a file, [Render] an [Outcome].
package alloctest
