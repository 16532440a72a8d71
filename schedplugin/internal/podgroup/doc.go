// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podgroup plans the devices of the pods of a PodGroup, which are scheduled together.
//
// The framework schedules these pods one by one, each on the best node and with the first devices found. If some get no devices
// that way, the group is planned in the first PreFilter of each later attempt. The plan uses what the attempt sees in use: with
// or without pods that preemption removed. Filter then admits only the planned node, and Reserve takes the planned devices.
// All other plugins check the plan, since its pods go through a scheduling attempt like all pods.
//
//	PreFilter ────────── Groups.Join ──► Member, for one pod, and Cycle, for its group
//	                     Member.Plan: looks for a plan, or says why the pod has to wait
//	AddPod ───────────── Member.InPlanWith: is another pod part of the plan
//	Filter ───────────── Member.WhyNotOn, Planned: is the node that of the plan, and with which devices
//	Reserve ──────────── Member.Planned, Placed, Cycle.Reserve: the planned devices, and where the pod goes
//	PodGroupPostFilter ─ Groups.Await, Replan, PlanEach: does waiting help, is there a plan
//
// # Where to look
//
//	cycle.go      Groups, Cycle, Member: what the pods of a group share while it is being scheduled
//	planned.go    which groups are planned, and what is learned from attempts that failed
//	plan.go       asking package gang for places
//	member.go     what a pod of a plan may do
//	key.go        a hash of the state, so that a search without a plan is not repeated
//	common.go     groups whose devices must have an attribute in common
//	composite.go  CompositePodGroups
//	waiting.go    waiting for the devices of victims
package podgroup
