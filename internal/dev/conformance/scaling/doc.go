// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scaling runs the program of cluster-autoscaler on a control plane whose nodes are kwok's, and
// looks whether as many nodes come and go as pods with devices need.
//
// cluster-autoscaler creates and deletes nodes through its own provider for kwok. kwok reports nodes
// and bound pods as running. A scheduler binds the pods. What is left to this package is what a
// driver does: it publishes the devices of each node, a moment after the node is there.
//
//	loop.go     starts the programs, and runs the cases one after the other
//	cluster.go  node groups, and the devices of their nodes
//	cases.go    what pods there are, and how many nodes they need
//	expect.go   waits for pods and nodes, and says what there is if they do not come
package scaling
