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
func (w *Workload) Path() string {
	if w.Name == "" {
		return w.Group
	}
	return w.Group + "/" + w.Name
}

// Needed is what a workload has to cost, against upstream in the same run. Zero is no
// demand.
type Needed struct {
	// Ratio is how many times less than upstream Dray's answer takes, Facade the same
	// for the drop-in facade.
	Ratio, Facade float64
	// PerPod bounds an answer for all nodes, by kind of pod.
	PerPod map[Pod]time.Duration
}

// Workloads lists what is compared.
func Workloads() []Workload {
	return slices.Concat(fleetWorkloads(), unlikeWorkloads(), requestWorkloads(), networkWorkloads(), spreadWorkloads(),
		perDeviceWorkloads(), pairWorkloads(), partitionWorkloads(), shareWorkloads())
}
