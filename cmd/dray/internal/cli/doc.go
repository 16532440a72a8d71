// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of dray: its commands, flags and exit status.
//
//	main.go        entry point, exit status
//	root.go        the command tree
//	origin.go      flags that say where objects come from, and reading them
//	gates.go       feature gates
//	selection.go   which pods and claims are meant: -A, -n, -l, --field-selector
//	output.go      -o and --no-headers
//	watch.go       -w
//	allocate.go    dray allocate
//	explain.go     dray explain
//	subject.go     what dray explain is asked about
//	devices.go     dray devices
//	simulate.go    dray simulate
//	version.go     dray version
//	completion.go  names for the shell to complete
//	progress.go    progress on a terminal
package cli
