// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fix looks for a small change of a claim with which what waits can be placed.
//
//	Find     tries changes one at a time, those that give up least first
//	changes  the changes that are tried: a name, a toleration, a count, a constraint, a selector
//
// Each change is tried by placing the workload again, on the cluster as it is, with nothing kept: a Fix is never a
// guess. Like a Cluster, nothing here is safe for concurrent use.
package fix
