// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cdi keeps the files through which container runtimes learn what a
// container needs to use a device: specs of the Container Device Interface.
//
// Kubelet hands the qualified names of CDI devices to the runtime, and the
// runtime looks for files that define them whenever it creates a container. A
// file must therefore be there before a name is handed out, must be complete
// at any moment, and must stay as long as a container may be created anew.
//
//	spec ─► Files.Write ─► temporary file ─► rename ─► <owner>_<key>.json
//
// Both of kubelet's fronts write through this package: agent/deviceplugin has a
// file per CDI device, agent/draplugin one per claim. The owner in the name of a
// file tells them, and other programs, apart.
package cdi
