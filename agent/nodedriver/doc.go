// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodedriver is all that a node with devices needs, put together: a source, an inventory,
// one ledger for each driver, and both of kubelet's fronts.
//
//	Source ─► Inventory ─┬─► draplugin ────► kubelet: claims, API server: ResourceSlices
//	                     └─► deviceplugin ─► kubelet: plugin devices
//	pod resources, pods of the API server ─► what is free again ─► ledger
//
// # Nothing is served before it is known who has devices
//
// A driver whose ledger is there is served at once. Otherwise the ledger is rebuilt first: claims from
// the API server and from CDI files, devices of the device plugin from kubelet's
// pod-resources socket and the API server's pods. Ready and the log say what is waited for.
// Where the socket is not there, a node without pods that ask for devices of the driver is known to
// have no users; if there is such a pod, the driver is not served until the pod ends or kubelet answers.
//
// # One process for each driver
//
// A driver's folder below kubelet's "plugins" has a lock, which its process holds. With
// Options.Instance, several processes share driver and ledger, each with sockets of its own, so that one
// can take the place of another in a rolling update.
package nodedriver
