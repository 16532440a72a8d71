// Package schedplugin is the kube-scheduler plugin of Dray: it takes the place of the
// in-tree DynamicResources plugin, does what that does, and beyond it says why a pod does
// not get its devices, frees devices by preemption, prefers nodes by what becomes of their
// devices, and signs pods.
//
//	                 SharedDRAManager: slices, claims, classes, claims in flight
//	                      │
//	PreFilter ──► internal/model ──► View: pools.Snapshot + pools.Usage
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
// before DefaultPreemption, which ends PostFilter if it finds victims. DrayArgs are its
// arguments. All profiles of a scheduler have to use it, or none: the plugins do not see
// what the other one has in flight.
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
//   - Node-allocatable resources (alpha feature DRANodeAllocatableResources) are not
//     accounted for: the scheduler takes them from the private state of the in-tree plugin. New
//     refuses to run with the feature on.
//   - A claim for extended resources is created with its finalizer, which saves an update,
//     and a claim that pods of a group share is written once.
//   - A claim that somebody else allocated, without the time of the allocation, can be used
//     though binding conditions are on. In the tree, the API server refuses the reservation,
//     which comes with a time that must not be added.
//   - A claim that was written to the API server before a later step of PreBind failed
//     counts as allocated until it is deallocated.
//
// # Where things are
//
//	plugin, args                     New, DrayArgs
//	state, variant, podclaim, group  what is kept for a pod, and for the pods of a group
//	preenqueue, events, podindex     when a pod is worth an attempt
//	prefilter, filter, score,        the extension points, in the order of a cycle
//	postfilter, podgrouppostfilter,
//	reserve, prebind, sign
//	whatif, preemption, leaving      devices as if pods came or went
//	extended, extendedrequests,      extended resources that devices serve
//	extendedclaim
//	conditions                       devices that have to get ready before a pod is bound
//	explain, summary                 reasons, and the Event that sums them up
//	outlook                          what becomes of the devices of a node
//	status, metrics, timelimit       what is logged, measured and bounded
package schedplugin
