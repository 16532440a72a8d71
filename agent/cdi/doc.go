// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cdi writes the CDI (Container Device Interface) files from which container runtimes learn
// what a container needs to use a device.
//
// Kubelet passes the qualified names of CDI devices to the runtime. The runtime reads the files
// that define them whenever it creates a container. So a file must exist before kubelet gets the
// name, must be complete at any moment, and must remain as long as the container may be restarted.
//
//	spec ─► Files.Write ─► temporary file ─► rename ─► <owner>_<key>.json
//
// Both of kubelet's fronts write through this package: agent/deviceplugin has a file per CDI
// device, agent/draplugin one per claim. The owner in a file's name distinguishes them from each
// other and from other programs.
package cdi
