// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeletplugin runs a DRA driver beside kubelet and publishes its devices.
//
// # Contract
//
// The package offers the names, signatures and meaning of
// k8s.io/dynamic-resource-allocation/kubeletplugin v0.37, so that a driver changes an import
// path and nothing else. Kubelet is served by upstream's own helper: registration, the DRA
// service in all its versions, health, metadata of devices, and rolling updates are
// upstream's. What a driver publishes goes through the controller of package resourceslice,
// whose types are upstream's, too.
//
//	driver ── Start ──► Helper ─┬─► upstream's helper ─────► kubelet: register, prepare, health
//	                            └─► resourceslice.Controller ─► API server
//	                                  ▲
//	driver ── PublishResources ───────┘
//
// # Drivers written for Kubernetes 1.36
//
// They build as well, in one of two ways. With the libraries of 1.37, a driver without
// WatchHealthStatus reports no health, one that serves the health service of 1.36 (v1alpha1)
// goes on to do so, EnableDeviceMetadata may be called without versions, and MetadataVersions
// is there; but the driver has to use the names of k8s.io/api of 1.37.
//
// With its own libraries, of 1.36, a driver needs no change. This package and resourceslice are
// then a module of their own, which `make agent-older` lays out, and are built with the tag
// dray_kubernetes_1_36, for which they leave out what those libraries do not have.
//
// What differs from upstream's package: with the libraries of 1.37, DRAPlugin does not require
// WatchHealthStatus, and a program that calls that method of a DRAPlugin has to assert
// HealthWatcher first.
package kubeletplugin
