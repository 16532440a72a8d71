// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/dray-project/dray/schedplugin"
)

// phasePods is how many pods are scheduled, one after the other, before all is undone.
const phasePods = 16

// gates are as they are by default.
var gates = feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)

// filtering is what of a plugin takes part in the Filter phase.
type filtering interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.ReservePlugin
}

var filterings = []struct {
	name string
	make func(context.Context, fwk.Handle) (fwk.Plugin, error)
}{
	{nameInTree, func(ctx context.Context, handle fwk.Handle) (fwk.Plugin, error) {
		timeout := &metav1.Duration{Duration: config.DynamicResourcesFilterTimeoutDefault}
		return dynamicresources.New(ctx, &config.DynamicResourcesArgs{FilterTimeout: timeout}, handle, gates)
	}},
	{nameDray, func(ctx context.Context, handle fwk.Handle) (fwk.Plugin, error) {
		return schedplugin.NewWithFeatures(ctx, nil, handle, gates)
	}},
}

// BenchmarkFilterPhase measures PreFilter and Filter of one pod on all nodes of a fleet, one
// node after the other. The pods before it were given devices.
func BenchmarkFilterPhase(b *testing.B) {
	schedmetrics.Register()
	for i := range fleets {
		f := &fleets[i]
		b.Run(f.name, func(b *testing.B) {
			for _, c := range filterings {
				b.Run(c.name, func(b *testing.B) { measure(b, newArena(b, f, c.make)) })
			}
		})
	}
}

// measure schedules pods, and takes the time for the Filter phase of each.
func measure(b *testing.B, a *arena) {
	a.settle()
	var spent time.Duration
	b.ReportAllocs()
	for b.Loop() {
		if len(a.reserved) == phasePods {
			aside(b, a.undo)
		}
		next := pod(len(a.reserved))
		state := framework.NewCycleState()
		before := cpuTime()
		suited := a.filter(state, next)
		spent += cpuTime() - before
		aside(b, func() { a.reserve(state, next, suited) })
	}
	a.undo()
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "cpu-ns/pod")
}

func aside(b *testing.B, f func()) {
	b.StopTimer()
	f()
	b.StartTimer()
}

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
