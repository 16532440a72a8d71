package schedplugin

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/schedplugin/internal/model"
)

const subsystem = "dray"

// The metrics of all profiles of a scheduler, on its own endpoint. docs/operations.md says
// what they are good for.
var (
	filtered = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "node_answers_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of times devices for a pod were looked for on a node, by outcome: satisfiable, unsatisfiable, undecided, timeout, cancelled or error.",
	}, []string{"outcome"})
	allocations = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "allocations_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of pods for which devices were to be chosen on a node, by outcome: success or error.",
	}, []string{"outcome"})
	allocationSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "allocation_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Time it took to choose devices for a pod on the node it goes to.",
		Buckets: metrics.ExponentialBuckets(0.00001, 4, 10),
	})
	searchSteps = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "search_steps", StabilityLevel: metrics.ALPHA,
		Help:    "Search steps for the devices of a pod on a node, where the answer was not known from another node.",
		Buckets: metrics.ExponentialBuckets(1, 8, 7),
	})
	remembered = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "remembered_answers_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of answers in full that were known from another node like it.",
	})
	observeSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "state_update_duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Time it took to bring what is known of devices and claims up to date for a pod.",
		Buckets: metrics.ExponentialBuckets(0.00001, 4, 10),
	})
	knownPools = metrics.NewGauge(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "pools", StabilityLevel: metrics.ALPHA,
		Help: "Number of resource pools that are known.",
	})
	knownClaims = metrics.NewGauge(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "allocated_claims", StabilityLevel: metrics.ALPHA,
		Help: "Number of claims that hold devices, those in flight included.",
	})
	conflicts = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "claim_conflicts_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of claim updates repeated because of a conflict.",
	})
)

// registerMetrics adds the metrics to the scheduler's own, once per program.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(filtered, allocations, allocationSeconds, searchSteps, remembered,
		observeSeconds, knownPools, knownClaims, conflicts)
	for _, answer := range []string{answerSatisfiable, answerUnsatisfiable, answerUndecided, answerTimeout, answerCancelled, answerError} {
		answered[answer] = filtered.WithLabelValues(answer)
	}
})

// answered are the counters of filtered, which are counted up for each pod and node. It is
// not written to after the metrics are registered.
var answered = make(map[string]metrics.CounterMetric)

func measureView(v *model.View, start time.Time) {
	observeSeconds.Observe(time.Since(start).Seconds())
	knownPools.Set(float64(len(v.Snapshot.Pools())))
	knownClaims.Set(float64(v.Claims))
}

// measureSearch counts what an answer cost. With an error there is none.
func measureSearch(stats allocator.Stats, err error) {
	if err != nil {
		return
	}
	if steps := stats.Steps; steps > 0 {
		searchSteps.Observe(float64(steps))
	} else {
		remembered.Inc()
	}
}
