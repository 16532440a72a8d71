// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package view is the web page of dray: who holds devices, why pods wait, and what-if questions.
//
//	input.Objects ──► cluster.Cluster ──► Picture ──► page (web/), file, SVG
//	      ▲                                  │
//	      └──── Change (a copy) ◄── what if ─┘
//
// A Picture has the same results as dray devices and dray explain.
//
//	picture.go   the data of the page
//	devices.go   pools and devices
//	nodes.go     nodes, grouped by their devices
//	waiting.go   pending workloads, and why they wait
//	usage.go     how many devices are held, free or stranded
//	delta.go     the difference between two pictures
//	change.go    a what-if on a copy of the objects
//	source.go    where pictures come from: read once, or followed
//	server.go    the HTTP server
//	access.go    authentication of requests
//	file.go      the page as one file
//	svg.go       the map as a drawing
package view
