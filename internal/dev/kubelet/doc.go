// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubelet puts parts of kubelet 1.37 together that drivers speak to, so that a
// driver can be tested with the code that it will meet on a node. It is upstream's code: the
// device manager, the manager of DRA claims, the plugin manager and the pod-resources
// server. What is written here is what kubelet does between them, and nothing of it decides.
//
// # What is left out
//
// Container runtime, cgroups, CPU and memory managers, topology manager, status manager. Pods
// are told by the test. A pod is admitted as kubelet does it: devices for each container in
// order, init containers first, then claims.
//
// Kubelet's device manager has no exported constructor that takes a folder. The one without
// is reached by its linker name, see linked.go.
package kubelet
