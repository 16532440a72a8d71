// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Outcome is the result of comparing the decisions of the two schedulers about a pod.
type Outcome string

// The outcomes. The first three are not differences.
const (
	// SameDevices: the pod was placed with the devices that Dray would have taken.
	SameDevices Outcome = "same_devices"
	// SameRefusal: the pod is unschedulable, and Dray finds no node either.
	SameRefusal Outcome = "same_refusal"
	// Concurrent: Dray would have taken other devices, and one of them was allocated or released at about the
	// same time. So the other scheduler may have known more or less than Dray.
	Concurrent Outcome = "concurrent"
	// OtherDevices: Dray would have taken other devices.
	OtherDevices Outcome = "other_devices"
	// Refused: Dray would not have placed the pod on this node.
	Refused Outcome = "refused"
	// Accepted: the pod is unschedulable, but Dray finds a node.
	Accepted Outcome = "accepted"
	// Failed: Dray has no answer because of an error, or because the search ran out of budget.
	Failed Outcome = "failed"
)

// outcomes lists the outcomes in the order of a report, with their texts.
var outcomes = []struct {
	Outcome
	text   string
	differ bool
}{
	{SameDevices, "placed with the same devices", false},
	{SameRefusal, "unschedulable for both", false},
	{Concurrent, "placed with others, which changed hands at the time", false},
	{OtherDevices, "placed with other devices", true},
	{Refused, "placed where Dray would not have", true},
	{Accepted, "unschedulable, though Dray finds a node", true},
	{Failed, "not decided by Dray", true},
}

// maxDifferences is the number of differences that a report describes.
const maxDifferences = 100

// Report counts outcomes. It is safe for concurrent use.
type Report struct {
	start time.Time

	mu          sync.Mutex
	counts      map[Outcome]int
	differences []string
}

var compared = metrics.NewCounterVec(&metrics.CounterOpts{
	Subsystem: "dray_shadow", Name: "pods_total", StabilityLevel: metrics.ALPHA,
	Help: "Number of pods about which the decisions of two schedulers were compared, by outcome.",
}, []string{"outcome"})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(compared) })

func newReport(start time.Time) *Report {
	registerMetrics()
	for _, o := range outcomes {
		compared.WithLabelValues(string(o.Outcome)).Add(0)
	}
	return &Report{start: start, counts: make(map[Outcome]int)}
}

// add counts an outcome. difference describes it, and is empty if it is not a difference.
func (r *Report) add(outcome Outcome, difference string) {
	compared.WithLabelValues(string(outcome)).Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[outcome]++
	if difference != "" && len(r.differences) < maxDifferences {
		r.differences = append(r.differences, difference)
	}
}

// Count returns how often an outcome occurred.
func (r *Report) Count(outcome Outcome) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[outcome]
}

// Differences returns the number of pods about which the schedulers disagree.
func (r *Report) Differences() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := 0
	for _, o := range outcomes {
		if o.differ {
			sum += r.counts[o.Outcome]
		}
	}
	return sum
}

// Text returns the report in plain text, for the time up to now.
func (r *Report) Text(now time.Time) string {
	differences := r.Differences()
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := 0
	for _, count := range r.counts {
		sum += count
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d pods compared in %s\n", sum, now.Sub(r.start).Round(time.Second))
	for _, o := range outcomes {
		fmt.Fprintf(&text, "%7d %s\n", r.counts[o.Outcome], o.text)
	}
	for _, difference := range r.differences {
		fmt.Fprintf(&text, "- %s\n", difference)
	}
	if more := differences - len(r.differences); more > 0 {
		fmt.Fprintf(&text, "and %d more\n", more)
	}
	return text.String()
}
