// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package virtualnode runs one node whose pods have ResourceClaims, without a kubelet.
// It puts together agent/node, which keeps the node and its pods, agent/claims, which has
// drivers prepare claims, and a provider, which runs pods.
//
//	bound pod ─► claims prepared ─► provider: CreatePod with CDI devices ─► Running
//	                                                     │
//	Succeeded or Failed ◄─ claims unprepared ◄─ the provider says that it ended
//
// # Contract
//
// The provider gets a pod only when all its claims are prepared. Kubernetes learns that a pod ended
// only when its claims are unprepared, except claims that other pods of the node use. So devices
// are free when they are allocated again, as with kubelet. If a driver does not answer, both steps
// wait, and an Event of the pod names the driver. A pod that is force-deleted, or whose grace
// period is over, does not wait for that. Its claims are unprepared when the driver is back. A
// driver that does not answer blocks only the pods that need it.
//
// If a pod ended or was deleted while the node was down, its claims are released at the next start.
package virtualnode
