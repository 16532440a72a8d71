// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodedriver runs all that a node with devices needs: a source, an inventory, one ledger
// per driver, and both fronts to kubelet (DRA plugin, device plugin).
//
//	Source ─► Inventory ─┬─► draplugin ────► kubelet: claims, API server: ResourceSlices
//	                     └─► deviceplugin ─► kubelet: plugin devices
//	pod resources, pods of the API server ─► what is free again ─► ledger
//
// # Nothing is served before it is known who has devices
//
// A driver with a valid ledger is served at once. Otherwise the ledger is rebuilt first. Users of
// claims' devices come from the API server and from CDI files. Users of plugin devices come from
// kubelet's pod-resources socket and the API server's pods. Ready and the log say what is missing.
// If the socket does not exist and no pod of the node requests devices of the driver, there are no
// users. If there is such a pod, the driver is not served until the pod ends or kubelet answers.
//
// # One process for each driver
//
// The process that serves a driver holds a lock in the driver's folder below kubelet's "plugins".
// With Options.Instance, several processes share driver and ledger, each with its own sockets. So
// one process can replace another in a rolling update.
package nodedriver
