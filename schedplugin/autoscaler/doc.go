// Package autoscaler holds the objects of dynamic resource allocation in a simulated cluster, for
// programs that run the scheduler framework without a scheduler. It takes the place of package
// k8s.io/autoscaler/cluster-autoscaler/simulator/dynamicresources/snapshot: names, signatures and
// meaning are the same, so changing the import path is what cluster-autoscaler has to do to its
// code (docs/cluster-autoscaler.md). It works with the in-tree plugin and with Dray.
//
//	cluster-autoscaler ── Fork, AddClaims, ReservePodClaims … ──► Snapshot ── claims that changed ──► plugin Dray
//	                                                                 │
//	scheduler framework ◄── slices, claims, classes (SharedDRAManager) ┘
//
// What is different:
//
//   - A claim is never changed in place. Plugins can recognise objects by pointer.
//   - The plugin Dray asks which claims changed, and does not list all of them for each pod.
//   - Results with admin access do not count as allocated (KEP-5018).
//   - Slices have the taints of the DeviceTaintRules that the Snapshot was given (KEP-5055).
//   - Shares of devices count as shares, if the gate DRAConsumableCapacity is on (KEP-5075).
//   - The claim that stands for extended resources of a pod goes with the pod (KEP-5004).
//
// Fork, Commit and Revert cost what changed since the Fork. A Snapshot may be read by several
// goroutines, as the framework does while it filters nodes, and changed by one that is alone.
package autoscaler
