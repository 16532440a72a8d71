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
// The extension points are in the order of a cycle. Beside each is what to read it against in the in-tree plugin.
//
//	plugin, rival           New, Registry, and who else must not be there         New
//	queue                   PreEnqueue, EventsToRegister, SignPod                 the same; hints are in internal/wake
//	prefilter               PreFilter, AddPod, RemovePod                          PreFilter; does not preempt for devices
//	filter, explain         Filter, and why nodes are refused                     Filter
//	postfilter              PostFilter                                            PostFilter
//	podgrouppostfilter      PodGroupPostFilter                                    PodGroupPostFilter
//	score                   Score, NormalizeScore                                 Score
//	reserve                 Reserve, Unreserve                                    Reserve, Unreserve
//	prebind                 PreBind, PreBindPreFlight                             PreBind; bindClaim is in internal/binding
//	state, variant          what is kept for a pod in a cycle                     stateData, extendedResourceData; podGroupStateData is podgroup.Cycle
//	accounting              devices that stand for CPU and the like of their node nodeallocatabledynamicresources.go
//	status                  what is logged, told and bounded                      statusUnschedulable, statusError
//	upstream                what leans on details of kube-scheduler that no interface promises
//
// What does not need the plugin is in packages of its own, which know nothing of each other but for
// what the arrows say. A test of the repository enforces them:
//
//	config                   arguments and switches
//	internal/model           what there is of devices, and what is in use ──► shared
//	internal/claimstate      the claims of a pod
//	internal/preempt         the same as if pods came or went        ──► model, claimstate, config
//	internal/podgroup        pods that are scheduled together        ──► preempt, claimstate, refusal, metrics
//	internal/binding         writing claims                          ──► model, claimstate, foreign, metrics
//	internal/refusal         reasons and Events                      ──► config, metrics, shared
//	internal/wake            which events wake a pod                 ──► claimstate, refusal
//	internal/scoring         what speaks for a node                  ──► model, claimstate
//	internal/nodeallocatable what devices take of their node, by the in-tree plugin
//	internal/foreign         what other schedulers allocate          ──► shared
//	internal/shared          what the profiles of a scheduler share
//	internal/metrics         what is measured
//
// Outside of the plugin are autoscaler, which has it run in a simulation, and cmd/dray-scheduler with its shadow, which compares its
// decisions with those of another scheduler. internal/dev does not ship: the performance runner, the demonstration, and what plays nodes for both.
package schedplugin
