// Package cli is the command line of dray: its commands, flags and exit status.
//
//	main.go        entry point, exit status
//	root.go        the command tree
//	origin.go      flags that say where objects come from, and reading them
//	gates.go       feature gates
//	allocate.go    dray allocate
//	explain.go     dray explain
//	subject.go     what dray explain is asked about
//	devices.go     dray devices
//	version.go     dray version
//	completion.go  names for the shell to complete
//	progress.go    progress on a terminal
package cli
