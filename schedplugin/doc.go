// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedplugin is the kube-scheduler plugin of Dray. It replaces the in-tree plugin
// DynamicResources, and does all that this does. Beyond that it says why a pod gets no devices,
// supports preemption for devices, scores nodes by the devices that would be left, and signs pods.
//
//	                 SharedDRAManager: slices, claims, classes, claims in flight
//	                      │
//	PreFilter ──► internal/model ──► View with a pools.State
//	  claims ───► allocator.Compile ─► variant: Problem
//	Filter    ──► Problem.Feasible      a verdict per node; equivalent nodes share one search
//	Score     ──► internal/scoring      only if a weight is set that makes a difference
//	Reserve   ──► Problem.Allocate      devices, for the selected node only
//	PreBind   ──► API server            finalizer, allocation, reservation
//
// # Use
//
// Register Name and New with the scheduler command (app.WithPlugin), disable the in-tree
// plugin and enable this one. A plugin that is enabled under multiPoint comes after those of
// the default profile. So list it under preEnqueue, postFilter and podGroupPostFilter, too:
// before DefaultPreemption, which ends PostFilter if it finds victims. config.DrayArgs are
// its arguments. All profiles of a scheduler have to use it, or none: neither plugin sees the
// other's claims in flight. A scheduler whose profiles disagree does not start.
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
//     pod in PreFilter until claim or class change, instead of being retried with backoff.
//     A selector that fails on a device, a search that takes too long or too many steps
//     rejects that node, not the pod.
//   - A claim for extended resources is created with its finalizer, which saves an update,
//     and a claim that pods of a group share is written once.
//   - A claim that another scheduler allocated without an allocation timestamp can be used
//     although binding conditions are on. The in-tree plugin adds a timestamp with the
//     reservation, which the API server refuses.
//   - A search that was given up is repeated after a while, with larger limits. Until each node has
//     a definite answer, no pod is preempted.
//   - A claim that was written to the API server before a later step of PreBind failed
//     counts as allocated until it is deallocated. That is done at once if the pod was
//     preempted in PreBind: the framework tries it again, and its devices are for another pod.
//
// # Where things are
//
// The extension points are in the order of a cycle. The right column has the corresponding function of the in-tree plugin.
//
//	plugin, conflicts       New, Registry, and other plugins and schedulers       New
//	queue                   PreEnqueue, EventsToRegister, SignPod                 the same; hints are in internal/wake
//	prefilter               PreFilter, AddPod, RemovePod                          PreFilter; does not preempt for devices
//	filter, explain         Filter, and why nodes are refused                     Filter
//	postfilter              PostFilter                                            PostFilter
//	podgrouppostfilter      PodGroupPostFilter                                    PodGroupPostFilter
//	score                   Score, NormalizeScore                                 Score
//	reserve                 Reserve, Unreserve                                    Reserve, Unreserve
//	prebind                 PreBind, PreBindPreFlight                             PreBind; bindClaim is in internal/binding
//	state, variant          cycle state                                           stateData, extendedResourceData; podGroupStateData is podgroup.Cycle
//	accounting              devices that stand for CPU and the like of their node nodeallocatabledynamicresources.go
//	status                  logs, statuses and time limits                        statusUnschedulable, statusError
//	upstream                code that depends on details of kube-scheduler that no interface promises
//
// Code that does not need the plugin is in packages of its own, which import each other only as the
// arrows say. A test of the repository enforces them:
//
//	config                   arguments and switches
//	internal/model           devices, and which are in use           ──► shared
//	internal/claimstate      the claims of a pod
//	internal/preempt         the same with pods added or removed     ──► model, claimstate, config
//	internal/podgroup        pods that are scheduled together        ──► preempt, claimstate, refusal, metrics
//	internal/binding         writing claims                          ──► model, claimstate, foreign, metrics
//	internal/refusal         reasons and Events                      ──► config, metrics, shared
//	internal/wake            queueing hints                          ──► claimstate, refusal
//	internal/scoring         scores of nodes                         ──► model, claimstate
//	internal/nodeallocatable resources that devices take of their node, computed by the in-tree plugin
//	internal/foreign         allocations by other schedulers         ──► shared
//	internal/shared          values that the profiles of a scheduler share
//	internal/metrics         metrics
//
// Outside of the plugin are autoscaler, which runs it in a simulation, and cmd/dray-scheduler, whose subcommand shadow compares its
// decisions with those of another scheduler. internal/dev does not ship: the performance runner, the demonstration, and simulated nodes for both.
package schedplugin
