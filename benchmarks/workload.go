// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"slices"
	"time"

	"github.com/dray-project/dray/alloctest"
)

// Workload is a pod and a cluster. Each node is asked about the pod, as in a scheduler's Filter.
type Workload struct {
	// Group is the name of a table, such as "fleet".
	Group string
	// Name identifies the workload within its group, in benchstat's format:
	// "state=used/nodes=1000".
	Name string
	// Build returns the cluster. It is deterministic. The question is about all its nodes.
	Build func() *alloctest.Case
	// Heavy says that generating the cluster takes about a second.
	Heavy bool
	// Sample is the number of nodes that upstream is asked about, if all would take too long. 0
	// stands for all. Costs are compared per node.
	Sample int
	// Pods are the kinds of pods that are measured.
	Pods []Pod
	// Needed are the requirements for Dray.
	Needed Needed
}

// Path returns the name of the workload in benchmarks and budgets.
func (w *Workload) Path() string { return w.Group + "/" + w.Name }

// Needed are requirements for the costs of a workload, relative to upstream in the same run. Zero
// stands for no requirement.
type Needed struct {
	// Ratio is how many times less CPU time per node than upstream Dray must use. Facade is the
	// same for the drop-in facade.
	Ratio, Facade float64
	// Allocs bounds the number of allocations per node, rounded, without those for compiling
	// expressions.
	Allocs *int
	// PerPod bounds Dray's CPU time for all nodes, by kind of pod.
	PerPod map[Pod]time.Duration
}

// CompilingAllocs bounds the allocations for compiling a new expression, once for all nodes. For an
// expression of the fleet, cel-go needs 860.
const CompilingAllocs = 1000

// Operation is a benchmark of a single operation, rather than of a pod on many nodes.
type Operation struct {
	// Path is the name of its benchmark, without the implementation.
	Path string
	// Own bounds the time of Dray's own API, and Facade that of the drop-in facade. Zero stands for
	// no requirement.
	Own, Facade time.Duration
}

const (
	fixedPath  = "fixed/nodes=5000/devices-in-use=36000"
	indexPath  = "index/slices=5000/devices-in-use=36000"
	changePath = "change/slices=5000"
	forkPath   = "fork/shares=400000"
)

// Operations returns all operations.
func Operations() []Operation {
	return []Operation{
		{Path: fixedPath + "/order=same", Own: 100 * time.Microsecond, Facade: 100 * time.Microsecond},
		{Path: fixedPath + "/order=shuffled", Facade: 100 * time.Microsecond},
		{Path: indexPath},
		{Path: changePath + "/step=index", Own: 50 * time.Microsecond},
		{Path: changePath + "/step=answer"},
		{Path: forkPath, Own: time.Microsecond},
		{Path: forkPath + "/written"},
	}
}

// Workloads returns all workloads.
func Workloads() []Workload {
	return slices.Concat(fleetWorkloads(), unlikeWorkloads(), requestWorkloads(), networkWorkloads(), spreadWorkloads(),
		perDeviceWorkloads(), pairWorkloads(), partitionWorkloads(), shareWorkloads())
}
