// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of dray: its commands, flags and exit status.
//
//	main.go        entry point, exit status
//	root.go        the command tree, and errors for wrong usage
//	origin.go      flags for the source of objects, and reading objects
//	gates.go       feature gates
//	selection.go   flags that select pods and claims: -A, -n, -l, --field-selector
//	output.go      -o and --no-headers
//	watch.go       -w
//	allocate.go    dray allocate
//	explain.go     dray explain
//	subject.go     arguments of dray explain
//	devices.go     dray devices
//	simulate.go    dray simulate
//	queue.go       what waits, in the order in which it is placed
//	version.go     dray version
//	completion.go  names for the shell to complete
//	progress.go    progress on a terminal
package cli
