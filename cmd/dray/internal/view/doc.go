// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package view is the page of dray: who holds what, why it waits, and what if.
//
//	input.Objects ──► cluster.Cluster ──► Picture ──► page (web/), file, SVG
//	      ▲                                  │
//	      └──── Change (a copy) ◄── what if ─┘
//
// A Picture has what dray devices and dray explain say, and judges nothing again.
//
//	picture.go   what the page shows
//	devices.go   pools and devices of it
//	nodes.go     nodes, and kinds of nodes
//	waiting.go   what waits, and why
//	usage.go     how many devices are held, free or stranded
//	delta.go     what differs between two pictures
//	change.go    a what-if on a copy of the objects
//	source.go    where pictures come from: read once, or followed
//	server.go    the page on an address
//	access.go    who may ask
//	file.go      the page as one file
//	svg.go       the map as a drawing
package view
