// Package render prints what the command line found out: for people, fitted to
// their terminal, or as JSON and YAML for programs.
//
//	terminal.go   width and colours
//	table.go      columns that fit the width
//	compact.go    many devices in few characters
//	words.go      counts and lists in English
//	placement.go  dray allocate
//	wording.go    explanations, for those who know the manifests
//	claims.go     dray allocate -o json|yaml
//	explain.go    dray explain
//	devices.go    dray devices: how
package render
