// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claims prepares ResourceClaims for the pods of one node. It does what
// kubelet does, for programs that run pods in kubelet's place, such as virtual
// nodes.
//
//	pod ─► Prepare ─► which claims, are they allocated and reserved? ◄─ API server
//	                     │
//	                     ▼ checkpoint: this pod uses these claims of these drivers
//	                  drivers: NodePrepareResources, one call per driver and pod
//	                     │
//	                     ▼ checkpoint: the CDI devices that the drivers made
//	       CDIDevices ─► containers
//	pod ends ─► Release ─► checkpoint ─► NodeUnprepareResources after the last pod
//
// # Contract
//
// A driver is asked to prepare a claim only if the claim is allocated and reserved for the pod. A
// claim that several pods share is prepared once, and unprepared after the last of them was
// released. The checkpoint is written before a driver is called, and after it answered. A process
// that is killed at any point therefore knows afterwards which claims may be prepared: those of
// pods that still exist stay prepared, the others are unprepared by ReleaseExcept.
//
// A driver is asked again by each process, as kubelet does. What the driver made may be lost when
// the node is rebooted, and the DRA API requires that calls may be repeated. So the caller must call
// Prepare before the pod's containers start, and after a restart Prepare or AwaitAgain for each
// existing pod. It must call Release when all containers of the pod have ended. Calls for one
// pod must not overlap. A pod that was released cannot be prepared again.
//
// Drivers are found as kubelet finds them: by their sockets in the registration folder, and in
// folders below it. Names that begin with a dot do not count.
// They must serve version v1 or v1beta1 of the DRA API.
//
// # Where things are
//
//	preparer   the API: Start, Prepare, Release, ReleaseExcept
//	await      the same, repeated until it succeeds; and again after a restart
//	wanted     which claims a pod needs, and whether it may use them
//	records    the state of claims, its checkpoint, and locks of claims
//	calls      the calls of drivers
//	plugins    the registration folder, and which drivers can be reached
//	slices     deleting the ResourceSlices of those that cannot
//	devices    which container gets which CDI devices
//	health     the health of these devices, as drivers report it
package claims
