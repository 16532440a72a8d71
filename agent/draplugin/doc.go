// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package draplugin serves the devices of an inventory through Dynamic Resource
// Allocation: it publishes them as ResourceSlices, and prepares them for the
// claims of pods when kubelet asks.
//
//	Update ─► agent/resourceslice ─► API server
//	       └► health stream ────────► kubelet
//	       └► status.devices of claims that are prepared ─► API server
//	kubelet ─► Prepare ─► ledger ─► CDI file of the claim ─► names of CDI devices ─► kubelet
//	        └► Unprepare ─► CDI file removed ─► ledger
//
// The driver writes its entries in a claim's status.devices when the claim is prepared or that
// fails, and when the health of devices changes. It removes them when the claim is unprepared
// (KEP-4817). Kubelet does not wait for these writes.
//
// Registration with kubelet, its gRPC services in all their versions, and the
// look-up of claims are those of k8s.io/dynamic-resource-allocation/kubeletplugin.
package draplugin
