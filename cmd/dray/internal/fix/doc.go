// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fix looks for a small change of a claim with which a pending workload can be placed.
//
//	Find     tries changes one at a time, the least important first
//	changes  the changes that are tried: a name, a toleration, a count, a constraint, a selector
//
// Each change is verified by placing the workload again on the cluster, without keeping the
// placement. Nothing here is safe for concurrent use.
package fix
