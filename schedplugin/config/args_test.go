// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/dray-project/dray/allocator"
)

// everything has the features on that arguments need.
var everything = feature.Features{
	EnableDRADeviceBindingConditions:   true,
	EnableDRAPrioritizedList:           true,
	EnableDRAResourceClaimDeviceStatus: true,
	EnableDRASchedulerFilterTimeout:    true,
}

func TestArgs(t *testing.T) {
	duration := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	for text, change := range map[string]func(a *DrayArgs){
		"": func(*DrayArgs) {},
		"{apiVersion: config.dray/v1alpha1, kind: DrayArgs, policy: FirstFit, explain: Event}": func(a *DrayArgs) {
			a.TypeMeta, a.Policy = metav1.TypeMeta{APIVersion: "config.dray/v1alpha1", Kind: "DrayArgs"}, "FirstFit"
		},
		"{filterBudget: null, scoring: null, events: {qps: null}, bindingTimeout: null}": func(*DrayArgs) {},
		"{policy: LeastWaste, topology: [resource.kubernetes.io/pcieRoot]}": func(a *DrayArgs) {
			a.Policy, a.Topology = "LeastWaste", []resourceapi.FullyQualifiedName{"resource.kubernetes.io/pcieRoot"}
		},
		"{policy: Pack}":   func(a *DrayArgs) { a.Policy = "Pack" },
		"{policy: Spread}": func(a *DrayArgs) { a.Policy = "Spread" },
		"{filterBudget: 7, filterTimeout: 0s, bindingTimeout: 1s}": func(a *DrayArgs) {
			a.FilterBudget, a.FilterTimeout, a.BindingTimeout = 7, duration(0), duration(time.Second)
		},
		"{events: {qps: 0.5, burst: 1, podBurst: 2, podPeriod: 1h}}": func(a *DrayArgs) {
			a.Events = EventLimits{QPS: 0.5, Burst: 1, PodBurst: 2, PodPeriod: duration(time.Hour)}
		},
		"{events: {burst: 7}}":                      func(a *DrayArgs) { a.Events.Burst = 7 },
		"{explain: Reasons, scoring: {packing: 2}}": func(a *DrayArgs) { a.Explain, a.Scoring.Packing = "Reasons", 2 },
		"{scoring: {prioritizedLists: 0, spreading: 3, leastWaste: 4}}": func(a *DrayArgs) {
			a.Scoring = ScoringArgs{Spreading: 3, LeastWaste: 4}
		},
	} {
		want := DrayArgs{
			FilterBudget: allocator.DefaultBudget, FilterTimeout: duration(10 * time.Second), BindingTimeout: duration(10 * time.Minute),
			Scoring: ScoringArgs{PrioritizedLists: 1}, Explain: ExplainEvent, Events: EventLimits{QPS: 5, Burst: 100, PodBurst: 3, PodPeriod: duration(5 * time.Minute)},
		}
		change(&want)
		got, err := Decode(&runtime.Unknown{Raw: []byte(text)}, everything)
		if err != nil || !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: %+v, error %v, want %+v", text, got, err, want)
		}
	}
	got, err := Decode(nil, feature.Features{})
	if err != nil || got.FilterTimeout.Duration != 0 || got.BindingTimeout.Duration != 0 || got.Scoring != (ScoringArgs{}) {
		t.Errorf("without arguments and features: %+v, error %v", got, err)
	}
	got, err = Decode(&runtime.Unknown{Raw: []byte("{scoring: {prioritizedLists: 2, packing: 1}}")}, feature.Features{})
	if err != nil || got.Scoring != (ScoringArgs{Packing: 1}) {
		t.Errorf("a weight without its feature: %+v, error %v", got, err)
	}
}

func TestWrongArgs(t *testing.T) {
	for text, want := range map[string]string{
		"{filterBudget: 0}":                     "filterBudget: Invalid value: 0: must be positive",
		"{filterTimeout: -1s}":                  `filterTimeout: Invalid value: "-1s": must be at least 0s`,
		"{bindingTimeout: 999ms}":               `bindingTimeout: Invalid value: "999ms": must be at least 1s`,
		"{events: {qps: 0}}":                    "events.qps: Invalid value: 0: must be positive",
		"{events: {burst: 0}}":                  "events.burst: Invalid value: 0: must be positive",
		"{events: {podBurst: -1}}":              "events.podBurst: Invalid value: -1: must be positive",
		"{events: {podPeriod: 0s}}":             `events.podPeriod: Invalid value: "0s": must be positive`,
		"{apiVersion: v1}":                      "apiVersion: Unsupported value",
		"{policy: BestFit}":                     `policy: Invalid value: "BestFit": device policy "BestFit" is not known: want FirstFit, LeastWaste, Pack or Spread`,
		"{topology: [numa]}":                    `topology: Invalid value: ["numa"]: topology: attribute "numa": want domain/name`,
		"{explain: All}":                        "explain: Unsupported value",
		"{scoring: {packing: 101}}":             "scoring.packing: Invalid value: 101: must be from 0 to 100",
		"{scoring: {packing: 1, spreading: 1}}": "scoring.spreading: Forbidden: excludes packing",
		"{kind: Args}":                          "kind: Unsupported value",
		"{filterBudgets: 1}":                    "unknown field",
		"{filterBudget: much}":                  "filterBudget",
		"{filterBudget: 1, x: [}":               "yaml",
	} {
		_, err := Decode(&runtime.Unknown{Raw: []byte(text)}, everything)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"{filterTimeout: 1s}":  "filterTimeout: Forbidden: needs the feature DRASchedulerFilterTimeout",
		"{bindingTimeout: 1s}": "bindingTimeout: Forbidden: needs the features DRADeviceBindingConditions and DRAResourceClaimDeviceStatus",
	} {
		_, err := Decode(&runtime.Unknown{Raw: []byte(text)}, feature.Features{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s without features: error %v, want %q", text, err, want)
		}
	}
	if _, err := Decode(&corev1.Pod{}, everything); err == nil {
		t.Error("arguments of another kind are no error")
	}
}
