// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package houserules holds what this repository asks of itself and no compiler
// checks: which folder may import which, how long a function may be, which
// names say nothing, which commands in a README must work.
//
// A [Rule] looks at a [Repository] and returns [Offence]s. The tests apply
// every rule to the checkout, and show for every rule that it catches an
// offender and lets a good neighbour pass:
//
//	imports.go    imports: the direction between folders, what only edges see
//	sizes.go      sizes: the length of functions and files
//	names.go      names: words that say nothing about what they name
//	patterns.go   patterns: unfinished, skipped and silenced code
//	references.go references: documents, decisions and make targets that exist
//	words.go      words: paths and hosts of the place where somebody worked
//	command.go    the console sessions of a README, which a test runs
//
// Weakening a rule is a change to this package, to be argued for like any other.
package houserules
