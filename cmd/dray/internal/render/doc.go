// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render prints what the command line found out: for people, fitted to
// their terminal; for pipes, a line for each thing that can be understood alone; and
// as JSON, YAML and the like for programs.
//
//	terminal.go   width and colours
//	table.go      columns that fit the width
//	compact.go    many devices in few characters
//	words.go      counts and lists in English
//	placement.go  dray allocate
//	causes.go     requests and constraints in conflict, with what stands behind them
//	wording.go    sentences of the allocator, for those who know the manifests
//	format.go     -o json, yaml, name, jsonpath and custom-columns
//	claims.go     dray allocate for programs
//	explain.go    dray explain
//	devices.go    dray devices: how
package render
