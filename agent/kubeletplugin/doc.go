// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeletplugin runs a DRA driver beside kubelet and publishes its devices.
//
// # Contract
//
// The package offers the names, signatures and meaning of
// k8s.io/dynamic-resource-allocation/kubeletplugin v0.37, so that a driver changes an import path
// and nothing else. Upstream's own helper serves kubelet: registration, the DRA service in all
// versions, health, metadata of devices, and rolling updates. The controller of package
// resourceslice publishes devices. Its types are upstream's, too.
//
//	driver ── Start ──► Helper ─┬─► upstream's helper ─────► kubelet: register, prepare, health
//	                            └─► resourceslice.Controller ─► API server
//	                                  ▲
//	driver ── PublishResources ───────┘
//
// # Drivers written for Kubernetes 1.36
//
// Such drivers can be built in two ways. The first is with the libraries of 1.37. A driver without
// WatchHealthStatus then reports no health. One that implements the health service of 1.36
// (v1alpha1) still serves it. EnableDeviceMetadata may be called without versions, and
// MetadataVersions exists. The driver has to use the names of k8s.io/api 1.37.
//
// The second way is with the libraries of 1.36, without a change of the driver. `make agent-older`
// makes a module of this package and resourceslice. It is built with the tag dray_kubernetes_1_36,
// which leaves out what those libraries lack.
//
// What differs from upstream's package: with the libraries of 1.37, DRAPlugin does not require
// WatchHealthStatus, and a program that calls that method of a DRAPlugin has to assert
// HealthWatcher first.
package kubeletplugin
