// Package cluster is the cluster that the command line reasons about: what was
// read, an index of the devices, what is in use, and the placing of pods and claims.
//
//	input.Objects ──► Cluster ──► Workloads in order ──► Place ──► Placement
//	                     ▲                                  │
//	                     └──── Keep: claims and ledger ◄────┘
//
// It stands in for the parts of kube-scheduler around device allocation that decide
// where a pod can go at all: node selectors, affinity, taints, cordons and scheduling
// gates. CPU, memory and everything else about a pod is not looked at.
//
//	cluster.go    what there is
//	taintrule.go  DeviceTaintRules, applied to slices
//	workload.go   what is to be placed, and in which order
//	podclaim.go   the claims behind a pod's spec.resourceClaims
//	generate.go   claims made from templates
//	nodefit.go    why a pod cannot go to a node, devices aside
//	run.go        all workloads, one after the other
//	place.go      one workload onto the first node that fits
//	placement.go  the answer, and keeping it
//	inventory.go  pools and devices, and what is left of them
//	refusal.go    why nodes were refused, summed up
package cluster
