// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics has the plugin's metrics, for all profiles of a scheduler, on the metrics endpoint
// of the scheduler. docs/operations.md says how to use them.
package metrics

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/dray-project/dray/allocator"
)

const subsystem = "dray"

var (
	nodeAnswers = metrics.NewCounterVec(&metrics.CounterOpts{
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
	rememberedAnswers = metrics.NewCounter(&metrics.CounterOpts{
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
	eventsCounted = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "events_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of Events about pods that do not get devices, by outcome: written, or limited by a rate limit.",
	}, []string{"outcome"})
	undecidedAttempts = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "undecided_attempts_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of attempts to schedule a pod that found no node, and did not find out of each node whether it has the devices. Nothing is preempted, and the attempt is repeated with larger limits.",
	})
	foreignAllocations = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "foreign_allocations_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of claims that somebody else allocated, with devices of a driver whose devices this scheduler allocates, too.",
	})
	groupPlans = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "group_plans_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of times places for all pods of a group were looked for together, by outcome: satisfiable, unsatisfiable or undecided.",
	}, []string{"outcome"})
	claimConflicts = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "claim_conflicts_total", StabilityLevel: metrics.ALPHA,
		Help: "Number of claim updates repeated because of a conflict.",
	})
)

// The outcomes of a search for devices on a node.
const (
	Satisfiable   = "satisfiable"
	Unsatisfiable = "unsatisfiable"
	Undecided     = "undecided"
	Timeout       = "timeout"
	Cancelled     = "cancelled"
	Error         = "error"
)

// Outcome returns the outcome of a search, as one of the constants.
func Outcome(ctx context.Context, verdict allocator.Verdict, err error) string {
	switch {
	case verdict == allocator.Satisfiable:
		return Satisfiable
	case verdict == allocator.NotSatisfiable:
		return Unsatisfiable
	case verdict == allocator.NotDecided:
		return Undecided
	case ctx.Err() != nil:
		return Cancelled
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	return Error
}

// Register adds the metrics to the scheduler's registry, once per process. It has to be called before all other functions.
var Register = sync.OnceFunc(func() {
	legacyregistry.MustRegister(nodeAnswers, allocations, allocationSeconds, searchSteps, rememberedAnswers,
		observeSeconds, knownPools, knownClaims, eventsCounted, undecidedAttempts, foreignAllocations, groupPlans, claimConflicts)
	for _, answer := range []string{Satisfiable, Unsatisfiable, Undecided, Timeout, Cancelled, Error} {
		answersByOutcome[answer] = nodeAnswers.WithLabelValues(answer)
	}
})

// answersByOutcome has the counters of nodeAnswers, to save a look-up for each pod and node. It is written by
// Register only.
var answersByOutcome = make(map[string]metrics.CounterMetric)

// Answered counts a search for devices on a node by its outcome, and its steps.
func Answered(answer string, stats allocator.Stats, err error) {
	answersByOutcome[answer].Inc()
	Searched(stats, err)
}

// Searched counts the steps of a search, or that the answer was remembered. After an error it counts nothing.
func Searched(stats allocator.Stats, err error) {
	if err != nil {
		return
	}
	if steps := stats.Steps; steps > 0 {
		searchSteps.Observe(float64(steps))
	} else {
		rememberedAnswers.Inc()
	}
}

// Planned counts a search for places for all pods of a group.
func Planned(outcome string) { groupPlans.WithLabelValues(outcome).Inc() }

// Chosen counts a pod that got devices on its node, and the time since start.
func Chosen(start time.Time) {
	allocations.WithLabelValues("success").Inc()
	allocationSeconds.Observe(time.Since(start).Seconds())
}

// NotChosen counts a pod that got no devices on its node.
func NotChosen() { allocations.WithLabelValues("error").Inc() }

// Observed records how long an update of the model took, since start, and its numbers of pools and allocated
// claims.
func Observed(start time.Time, pools, claims int) {
	observeSeconds.Observe(time.Since(start).Seconds())
	knownPools.Set(float64(pools))
	knownClaims.Set(float64(claims))
}

// EventWritten counts an Event about a pod that does not get devices.
func EventWritten() { eventsCounted.WithLabelValues("written").Inc() }

// EventLimited counts an Event that a rate limit suppressed.
func EventLimited() { eventsCounted.WithLabelValues("limited").Inc() }

// LeftUndecided counts an attempt that ended with a search given up.
func LeftUndecided() { undecidedAttempts.Inc() }

// AllocatedByOther counts a claim that another scheduler allocated.
func AllocatedByOther() { foreignAllocations.Inc() }

// Conflict counts an update of a claim that has to be repeated because somebody else changed it.
func Conflict() { claimConflicts.Inc() }
