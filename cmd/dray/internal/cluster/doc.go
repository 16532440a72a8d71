// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster is the model of a cluster for the command line. It has the objects that were
// read, an index of devices, what is in use, and places pods and claims.
//
//	input.Objects ──► Cluster ──► Workloads in order ──► Place ──► Placement
//	                     ▲                                  │
//	                     └──── Keep: claims and ledger ◄────┘
//
// It stands in for the parts of kube-scheduler around device allocation that decide where a pod can
// go at all: node selectors, node affinity, taints, cordons, scheduling gates, and resources such
// as CPU and memory. Other aspects of a pod are reported as not looked at.
//
//	cluster.go        the model
//	workload.go       pending pods and claims, and their order
//	podclaim.go       the claims behind a pod's spec.resourceClaims
//	extended.go       the claim for extended resources that devices provide
//	classhint.go      hints about classes that do not exist
//	nodefit.go        why a pod cannot go to a node, devices and resources aside
//	reason.go         these reasons, aggregated over nodes
//	noderesources.go  resources of nodes, and requests of pods
//	notlooked.go      aspects of pods that are not looked at
//	simulation.go     the cluster for what-if questions
//	place.go          one workload, or all, onto the first node that fits
//	question.go       pods with equal requests
//	placement.go      results, and keeping them
//	inventory.go      pools and devices, and what is free
//	blocked.go        free devices that cannot be allocated
//	refusal.go        why nodes were refused, aggregated
package cluster
