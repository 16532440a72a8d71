// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"slices"
	"time"

	"github.com/dray-project/dray/alloctest"
)

// Workload is a pod and the cluster that it is asked about, node by node, as a
// scheduler's filter does.
type Workload struct {
	// Group is the row of the table, such as "fleet".
	Group string
	// Name tells the workloads of a group apart, as benchstat reads it:
	// "state=used/nodes=1000".
	Name string
	// Build generates the cluster; the same at each call. The question is about all
	// its nodes.
	Build func() *alloctest.Case
	// Heavy is set if the cluster takes a second to generate.
	Heavy bool
	// Sample is how many of the nodes upstream is asked about where all would take too
	// long; 0 is all of them. Costs are compared per node.
	Sample int
	// Pods are the kinds of pods that are measured.
	Pods []Pod
	// Needed is what Dray promises.
	Needed Needed
}

// Path is how benchmarks and budgets name the workload.
func (w *Workload) Path() string { return w.Group + "/" + w.Name }

// Needed is what a workload has to cost, against upstream in the same run. Zero is no
// demand.
type Needed struct {
	// Ratio is how many times less CPU time than upstream Dray's answer takes for a node;
	// Facade is the same for the drop-in facade.
	Ratio, Facade float64
	// Allocs bounds the allocations for a node, rounded, without those of compiling an expression.
	Allocs *int
	// PerPod bounds Dray's answer for all nodes, by kind of pod.
	PerPod map[Pod]time.Duration
}

// CompilingAllocs bounds what compiling an expression that nobody used yet allocates, once for all nodes. For that
// of a fleet, parser, checker and planner of cel-go take 860.
const CompilingAllocs = 1000

// Operation is something that is measured by itself, rather than a pod on many nodes.
type Operation struct {
	// Path is how its benchmark is named, without the implementation.
	Path string
	// Own bounds Dray's own API, Facade the drop-in facade. Zero is no demand.
	Own, Facade time.Duration
}

const (
	fixedPath  = "fixed/nodes=5000/devices-in-use=36000"
	indexPath  = "index/slices=5000/devices-in-use=36000"
	changePath = "change/slices=5000"
	forkPath   = "fork/shares=400000"
)

// Operations lists them.
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

// Workloads lists what is compared.
func Workloads() []Workload {
	return slices.Concat(fleetWorkloads(), unlikeWorkloads(), requestWorkloads(), networkWorkloads(), spreadWorkloads(),
		perDeviceWorkloads(), pairWorkloads(), partitionWorkloads(), shareWorkloads())
}
