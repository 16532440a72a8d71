// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podgroup plans the devices of pods that are scheduled together: the pods of a PodGroup.
//
// The framework schedules them one by one, each on the best node and with its first devices. If they do not all get devices
// that way, the group is planned: in the first PreFilter of each later attempt, in the state that the attempt sees, be it real
// or what would be if preemption evicted pods. Filter then admits the planned node only, and Reserve takes the planned devices.
// All plugins check the plan, since it goes through a scheduling attempt like any other.
//
//	PreFilter ────────── Groups.Join ──► Member, for one pod, and Cycle, for its group
//	                     Member.Plan: looks for a plan, or says why the pod has to wait
//	AddPod ───────────── Member.Plans: is another pod part of the plan
//	Filter ───────────── Member.Refuse, Planned: is the node that of the plan, and with which devices
//	Reserve ──────────── Member.Planned, Placed, Cycle.Reserve: the planned devices, and where the pod goes
//	PodGroupPostFilter ─ Groups.Await, Replan, PlanEach: does waiting help, is there a plan
//
// # Where to look
//
//	cycle.go      Groups, Cycle, Member: what the pods of a group share while it is being scheduled
//	mark.go       which groups are planned, and what is learned from attempts that failed
//	plan.go       asking package gang for places
//	member.go     what a pod of a plan may do
//	key.go        when there is no plan as long as nothing changes
//	common.go     devices of all pods that have an attribute in common
//	composite.go  groups of groups
//	waiting.go    devices that come free, of pods that were preempted
package podgroup
