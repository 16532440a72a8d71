// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster is the cluster that the command line reasons about: what was
// read, an index of the devices, what is in use, and the placing of pods and claims.
//
//	input.Objects ──► Cluster ──► Workloads in order ──► Place ──► Placement
//	                     ▲                                  │
//	                     └──── Keep: claims and ledger ◄────┘
//
// It stands in for the parts of kube-scheduler around device allocation that decide
// where a pod can go at all: node selectors, node affinity, taints, cordons, scheduling
// gates, and resources such as CPU and memory. What else there is of a pod is named.
//
//	cluster.go        what there is
//	workload.go       what is to be placed, and in which order
//	podclaim.go       the claims behind a pod's spec.resourceClaims
//	extended.go       the claim for extended resources that devices stand for
//	classhint.go      which classes there are instead of one that does not exist
//	nodefit.go        why a pod cannot go to a node, devices and resources aside
//	reason.go         these reasons, summed up over nodes
//	noderesources.go  resources of nodes, and what pods ask of them
//	notlooked.go      what of a pod is not looked at
//	simulation.go     the cluster for what-if questions
//	place.go          one workload, or all, onto the first node that fits
//	question.go       pods that ask for the same
//	placement.go      the answer, and keeping it
//	inventory.go      pools and devices, and what is left of them
//	blocked.go        free devices that cannot be had
//	refusal.go        why nodes were refused, summed up
package cluster
