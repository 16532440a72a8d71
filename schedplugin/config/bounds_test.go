// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// Each weight may be from 0 to 100. Several wrong values are all said.
func TestBoundsOfWeights(t *testing.T) {
	for _, name := range []string{"prioritizedLists", "packing", "spreading", "leastWaste"} {
		for weight, valid := range map[int]bool{-1: false, 0: true, 1: true, 100: true, 101: false} {
			_, err := Decode(&runtime.Unknown{Raw: fmt.Appendf(nil, "scoring: {%s: %d}", name, weight)}, everything)
			want := fmt.Sprintf("scoring.%s: Invalid value: %d: must be from 0 to 100", name, weight)
			if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s of %d: error %v", name, weight, err)
			}
		}
	}
	_, err := Decode(&runtime.Unknown{Raw: []byte("{filterBudget: -1, events: {burst: 0, podBurst: 0}, scoring: {packing: -1, spreading: 1}}")}, everything)
	for _, field := range []string{"filterBudget", "events.burst", "events.podBurst", "scoring.packing", "scoring.spreading"} {
		if err == nil || !strings.Contains(err.Error(), field+": ") {
			t.Errorf("nothing is said of %s: %v", field, err)
		}
	}
}

// The least that is allowed, and one more than nothing.
func TestLeastValues(t *testing.T) {
	for _, text := range []string{
		"filterBudget: 1", "filterTimeout: 0s", "filterTimeout: 1ns", "bindingTimeout: 1s", "scoring: {packing: 1}", "scoring: {spreading: 1}",
		"events: {qps: 0.001}", "events: {burst: 1}", "events: {podBurst: 1}", "events: {podPeriod: 1ns}",
	} {
		if _, err := Decode(&runtime.Unknown{Raw: []byte(text)}, everything); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Timeouts have the defaults of kube-scheduler with their features, each by itself, and both features that binding needs.
func TestTimesByFeature(t *testing.T) {
	for name, test := range map[string]struct {
		features        feature.Features
		filter, binding string
	}{
		"none":          {feature.Features{}, "0s", "0s"},
		"filter":        {feature.Features{EnableDRASchedulerFilterTimeout: true}, "10s", "0s"},
		"conditions":    {feature.Features{EnableDRADeviceBindingConditions: true}, "0s", "0s"},
		"device status": {feature.Features{EnableDRAResourceClaimDeviceStatus: true}, "0s", "0s"},
		"binding":       {feature.Features{EnableDRADeviceBindingConditions: true, EnableDRAResourceClaimDeviceStatus: true}, "0s", "10m0s"},
	} {
		args, err := Decode(&runtime.Unknown{}, test.features)
		if err != nil || args.FilterTimeout.Duration.String() != test.filter || args.BindingTimeout.Duration.String() != test.binding {
			t.Errorf("%s: %+v, error %v; want %s and %s", name, args, err, test.filter, test.binding)
		}
		if _, err := Decode(&runtime.Unknown{Raw: []byte("bindingTimeout: 2s")}, test.features); (err == nil) != (name == "binding") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Weights add up. Only lists count if nothing else has a weight.
func TestWeights(t *testing.T) {
	for _, test := range []struct {
		weights   ScoringArgs
		sum       int64
		onlyLists bool
	}{
		{ScoringArgs{}, 0, true},
		{ScoringArgs{PrioritizedLists: 3}, 3, true},
		{ScoringArgs{Packing: 4}, 4, false},
		{ScoringArgs{Spreading: 5}, 5, false},
		{ScoringArgs{LeastWaste: 6}, 6, false},
		{ScoringArgs{PrioritizedLists: 1, Packing: 10, Spreading: 100, LeastWaste: 1000}, 1111, false},
	} {
		if test.weights.Sum() != test.sum || test.weights.OnlyLists() != test.onlyLists {
			t.Errorf("%+v: sum %d, only lists %t", test.weights, test.weights.Sum(), test.weights.OnlyLists())
		}
	}
}

// logged returns a logger, and a function that returns what it has logged.
func logged(t *testing.T) (klog.Logger, func() string) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	return logger, logger.GetSink().(ktesting.Underlier).GetBuffer().String
}

// A change of the switches is logged, and so is a file that cannot be understood: once, until it is another one.
func TestSwitchesAreLogged(t *testing.T) {
	file := t.TempDir() + "/switches.yaml"
	s, err := OpenSwitches(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		text string
		says string // empty: nothing
	}{
		{"{}", ""},
		{"setAside: true", ""},
		{"setAside: false", `before="setAside=true preemption=true" now="setAside=false preemption=true"`},
		{"setAside: false # the same", ""},
		{"preemption: maybe", `Switches stay as they are err="switches in ` + file},
		{"preemption: maybe", ""},
		{"setAside: perhaps", `Switches stay as they are err="switches in ` + file},
		{"setAside: false", ""},
		{"setAside: perhaps", `Switches stay as they are err="switches in ` + file},
		{"preemption: false", `now="setAside=true preemption=false"`},
	} {
		writeSwitches(t, file, step.text)
		logger, text := logged(t)
		s.Reread(logger)
		if said := text(); (said == "") != (step.says == "") || !strings.Contains(said, step.says) {
			t.Errorf("step %d, %s: logged %q, want %q", i+1, step.text, said, step.says)
		}
	}
}
