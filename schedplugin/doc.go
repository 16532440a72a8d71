// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedplugin is the kube-scheduler plugin of Dray: it takes the place of the
// in-tree DynamicResources plugin, does what that does, and beyond it says why a pod does
// not get its devices, frees devices by preemption, scores nodes by the devices that would be
// left there, and signs pods.
//
//	                 SharedDRAManager: slices, claims, classes, claims in flight
//	                      │
//	PreFilter ──► internal/model ──► View with a pools.State
//	  claims ───► allocator.Compile ─► variant: Problem
//	Filter    ──► Problem.Feasible      a verdict per node; most nodes are like another
//	Score     ──► choices, outlook      only if there is something to prefer
//	Reserve   ──► Problem.Allocate      devices, for the one node that was taken
//	PreBind   ──► API server            finalizer, allocation, reservation
//
// # Use
//
// Register Name and New with the scheduler command (app.WithPlugin), disable the in-tree
// plugin and enable this one. A plugin that is enabled under multiPoint comes after those of
// the default profile. So list it under preEnqueue, postFilter and podGroupPostFilter, too:
// before DefaultPreemption, which ends PostFilter if it finds victims. config.DrayArgs are
// its arguments. All profiles of a scheduler have to use it, or none: the plugins do not see
// what the other one has in flight. A scheduler whose profiles disagree does not start.
//
// # Contract
//
// Feature gates are those of the scheduler. The state of the cluster comes from the
// SharedDRAManager of the framework handle alone, so that the plugin also works in a
// simulator that replaces it. Which devices a pod gets is decided by package allocator.
//
// # Where it differs from the in-tree plugin
//
//   - A claim that cannot be compiled (an unknown class, a feature that is off) rejects the
//     pod in PreFilter until claim or class change, in stead of having it tried again and
//     again. A selector that fails on a device, a search that takes too long or too many steps
//     rejects that node, not the pod.
//   - A claim for extended resources is created with its finalizer, which saves an update,
//     and a claim that pods of a group share is written once.
//   - A claim that somebody else allocated, without the time of the allocation, can be used
//     though binding conditions are on. In the tree, the API server refuses the reservation,
//     which comes with a time that must not be added.
//   - A search that was given up is repeated after a while, with larger limits. Until it is known of
//     each node whether it has the devices, no pod is preempted.
//   - A claim that was written to the API server before a later step of PreBind failed
//     counts as allocated until it is deallocated.
//
// # Where things are
//
//	plugin, rival            New, Registry, and who else must not be there
//	state, variant, group    what is kept for a pod in a cycle, and for the pods of a group
//	queue                    what the scheduling queue asks: PreEnqueue, EventsToRegister, SignPod
//	prefilter, filter,       the extension points, in the order of a cycle
//	score, postfilter,
//	podgrouppostfilter,
//	reserve, prebind
//	preemption, nominated,   devices as if pods came or went
//	grouppreemption
//	accounting               devices that stand for CPU and the like of their node
//	explain                  reasons, Events, and what follows from how an attempt ended
//	status                   what is logged and bounded
//	upstream                 what leans on details of kube-scheduler that no interface promises
//
// What does not need the plugin is in packages of its own, which know nothing of each other but for
// what the arrows say:
//
//	config                   arguments and switches
//	internal/model           what there is of devices, and what is in use ──► shared
//	internal/claimstate      the claims of a pod
//	internal/whatif          the same with pods removed or added     ──► model, claimstate
//	internal/binding         writing claims                          ──► model, claimstate
//	internal/refusal         reasons and Events                      ──► config
//	internal/wake            which events wake a pod                 ──► claimstate, refusal
//	internal/scoring         what speaks for a node                  ──► model, claimstate
//	internal/nodeallocatable what devices take of their node, by the in-tree plugin
//	internal/foreign         what other schedulers allocate          ──► shared
//	internal/shared          what the profiles of a scheduler share
//	internal/metrics         what is measured
//
// internal/shadow is on the other side: it uses the plugin to compare decisions with those of another scheduler.
package schedplugin
