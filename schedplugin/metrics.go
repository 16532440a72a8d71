package schedplugin

import (
	"k8s.io/component-base/metrics"
)

// conflicts counts updates that were repeated because somebody else updated the claim.
var conflicts = metrics.NewCounter(&metrics.CounterOpts{
	Subsystem:      "dray",
	Name:           "claim_conflicts_total",
	Help:           "Number of claim updates repeated because of a conflict.",
	StabilityLevel: metrics.ALPHA,
})
