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
// The provider gets a pod only when all its claims are prepared. Kubernetes learns that a
// pod ended only when those of its claims are unprepared that no other pod of the node
// uses: whoever the devices are given to next gets them free, as with kubelet. If a driver
// does not answer, both wait, and an Event of the pod names the driver. Only a pod that is
// deleted by force, or whose grace is over, does not wait for a driver to unprepare: that is
// done as soon as the driver is back. A driver that does not answer holds up the pods that
// need it, and no other ones.
//
// A pod that is gone, or ended while the node was down, is released at the next start, or
// when its end is seen.
package virtualnode
