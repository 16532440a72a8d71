// Package draplugin serves the devices of an inventory through Dynamic Resource
// Allocation: it publishes them as ResourceSlices, and prepares them for the
// claims of pods when kubelet asks.
//
//	Update ─► agent/resourceslice ─► API server
//	       └► health stream ────────► kubelet
//	kubelet ─► Prepare ─► ledger ─► CDI file of the claim ─► names of CDI devices ─► kubelet
//	        └► Unprepare ─► CDI file removed ─► ledger
//
// Registration with kubelet, its gRPC services in all their versions, and the
// look-up of claims are those of k8s.io/dynamic-resource-allocation/kubeletplugin.
package draplugin
