// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"

	"github.com/dray-project/dray/schedplugin/config"
	"github.com/dray-project/dray/schedplugin/internal/metrics"
	"github.com/dray-project/dray/schedplugin/internal/shared"
)

// EventLimiter limits Events about pods without devices. An Event is written when the set of reasons against
// a pod changes, not if only figures differ. The limits bound how often. What is suppressed is written after
// a later attempt. It is safe for concurrent use.
type EventLimiter struct {
	limits config.EventLimits
	// all is the limiter of the whole scheduler.
	all  flowcontrol.PassiveRateLimiter
	mu   sync.Mutex
	last *lru.Cache // of *said, by UID
}

// podEvents is the state of one pod's Events.
type podEvents struct {
	kind    uint64
	limiter flowcontrol.PassiveRateLimiter
}

// maxPods is the number of pods to remember. Each takes some 300 bytes.
const maxPods = 100_000

// NewEventLimiter returns a limiter. Profiles with the same manager, QPS and burst share the scheduler's limit.
func NewEventLimiter(ctx context.Context, dra fwk.SharedDRAManager, limits config.EventLimits) *EventLimiter {
	all := limiters.Of(ctx, limiterKey{dra, limits.QPS, limits.Burst}, func() flowcontrol.PassiveRateLimiter {
		return flowcontrol.NewTokenBucketPassiveRateLimiter(float32(limits.QPS), int(limits.Burst))
	})
	return &EventLimiter{limits: limits, all: all, last: lru.New(maxPods)}
}

type limiterKey struct {
	dra   fwk.SharedDRAManager
	qps   float64
	burst int32
}

var limiters shared.Values[limiterKey, flowcontrol.PassiveRateLimiter]

// admit reports whether an Event of a kind is to be written now.
func (n *EventLimiter) admit(object types.UID, kind uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	var before *podEvents
	if known, found := n.last.Get(object); found {
		before = known.(*podEvents)
	} else {
		before = &podEvents{limiter: flowcontrol.NewTokenBucketPassiveRateLimiter(float32(1/n.limits.PodPeriod.Duration.Seconds()), int(n.limits.PodBurst))}
	}
	if before.kind == kind {
		return false
	}
	if !before.limiter.TryAccept() || !n.all.TryAccept() {
		metrics.EventLimited()
		return false
	}
	before.kind = kind
	n.last.Add(object, before)
	metrics.EventWritten()
	return true
}

// Record records an Event about an object that sums up why no node has the devices. It does not if the last
// Event was of the same kind, or a limit is reached. The text begins with who.
func (n *EventLimiter) Record(recorder events.EventRecorderLogger, who string, about corev1.ObjectReference, refusals []*Refusal) {
	kind := kindOf(refusals)
	if !n.admit(about.UID, kind) {
		return
	}
	// Recorders merge Events about one version of an object into a series, and keep the text of the first.
	// With the kind in place of the version, only Events of one kind are merged.
	about.ResourceVersion = fmt.Sprintf("%016x", kind)
	reason := "DevicesUnavailable"
	if slices.ContainsFunc(refusals, undecided) {
		reason = "DevicesUndecided"
	}
	recorder.Eventf(&about, nil, corev1.EventTypeWarning, reason, "Scheduling", "%s", summarize(who, refusals))
}
