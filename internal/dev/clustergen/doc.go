// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustergen turns a seed into an allocation case: a small cluster, what is
// in use there, and claims to allocate. The same seed and profile always give the
// same case. Tests, fuzzing and benchmarks share it.
//
// Clusters are small enough for an exhaustive search to finish and tight enough for
// it to fail often. Each case draws a plan (which topics it covers) and then builds
//
//	nodes -> classes -> pools and devices -> allocated claims -> claims -> oddities
//
// Oddities are values that the API allows, or that stored objects may have, and that nobody thinks of. Some of them the
// API server takes although its documentation permits them not.
//
// Small cases (profiles Shares and Pairs) are drawn by features instead of topics: a few
// devices with two or three attributes of few values, and as many requests as make
// claims contend.
//
// Names, attribute values and CEL expressions come from small fixed sets, so that
// devices collide, constraints bite and caches of compiled programs hit.
//
// Objects satisfy API validation, with intended exceptions: pools can be invalid as a
// whole (which validation of a single slice cannot see), a slice can select no nodes
// (as a future API version might), and a few percent of the cases carry a request
// that must be answered with an error.
package clustergen
