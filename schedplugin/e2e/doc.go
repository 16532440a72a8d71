// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e holds the specs of what comes out when pods with claims are scheduled on a
// real control plane. They say nothing about how the scheduler gets there, and hold for
// kube-scheduler's own plugin as for Dray, but for those that are for Dray alone.
//
//	SCHEDULER=in-tree go test ./e2e -ginkgo.focus 'shared'
//
// KILLS says how often the scheduler dies in the spec about that, OUTAGE how long the API
// server and etcd are away, CLAIMS how many claims arrive at once, and NODES on how many nodes.
//
// The binaries of the control plane are expected where `make controlplane` puts them.
//
// Each spec has an arena: a namespace, a driver, a class and nodes of its own. While it
// runs, package invariant watches every claim; when it ends, all devices must come free.
//
//	suite_test    the control plane, once for all specs
//	arena_test    what a spec has for itself, and how it is cleared away
//	objects_test  claims, requests and pods in few words
//	expect_test   what specs wait for
//	dump_test     what is printed when a spec fails
//	faults_test   the proxy between the scheduler and the API server, and specs about it
//	*_test        specs by topic
package e2e
