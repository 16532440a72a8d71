// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render prints results of the command line. On a terminal, text fits its width. In a pipe,
// each line is complete by itself. For programs, there are JSON, YAML and similar formats.
//
//	terminal.go   width and colours
//	table.go      columns that fit the width
//	compact.go    many devices in few characters
//	words.go      counts and lists in English
//	placement.go  dray allocate
//	causes.go     requests and constraints in conflict, with details
//	wording.go    sentences of the allocator, in terms of the manifests
//	format.go     -o json, yaml, name, jsonpath and custom-columns
//	claims.go     dray allocate for programs
//	explain.go    dray explain
//	devices.go    dray devices: how
package render
