package schedplugin

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"github.com/dray-project/dray/allocator"
)

// featuresWithout has everything off, and is not the zero value which stands for defaults.
func featuresWithout(t *testing.T) feature.Features {
	t.Helper()
	return feature.Features{EnablePodLevelResources: true}
}

func TestArgs(t *testing.T) {
	defaults := settings{
		filterBudget: allocator.DefaultBudget, filterTimeout: 10 * time.Second, bindingTimeout: 10 * time.Minute,
		weights: weights{lists: 1}, events: true,
	}
	for text, change := range map[string]func(s *settings){
		"": func(*settings) {},
		"{apiVersion: config.dray/v1alpha1, kind: DrayArgs, policy: FirstFit, explain: Event}": func(*settings) {},
		"{filterBudget: 7, filterTimeout: 0s, bindingTimeout: 1s}": func(s *settings) {
			s.filterBudget, s.filterTimeout, s.bindingTimeout = 7, 0, time.Second
		},
		"{explain: Reasons, scoring: {packing: 2}}": func(s *settings) { s.events, s.weights.packing = false, 2 },
		"{scoring: {prioritizedLists: 0, spreading: 3, leastWaste: 4}}": func(s *settings) {
			s.weights = weights{spreading: 3, thrift: 4}
		},
	} {
		want := defaults
		change(&want)
		got, err := settingsFrom(&runtime.Unknown{Raw: []byte(text)}, everything)
		if err != nil || got != want {
			t.Errorf("%s: %+v, error %v, want %+v", text, got, err, want)
		}
	}
	if got, err := settingsFrom(nil, featuresWithout(t)); err != nil || got.filterTimeout != 0 {
		t.Errorf("without arguments and features: %+v, error %v", got, err)
	}
}

func TestWrongArgs(t *testing.T) {
	for text, want := range map[string]string{
		"{filterBudget: 0}":                     "filterBudget: Invalid value: 0: must be positive",
		"{filterTimeout: -1s}":                  `filterTimeout: Invalid value: "-1s": must be at least 0s`,
		"{bindingTimeout: 999ms}":               `bindingTimeout: Invalid value: "999ms": must be at least 1s`,
		"{apiVersion: v1}":                      "apiVersion: Unsupported value",
		"{policy: BestFit}":                     "policy: Unsupported value",
		"{explain: All}":                        "explain: Unsupported value",
		"{scoring: {packing: 101}}":             "scoring.packing: Invalid value: 101: must be from 0 to 100",
		"{scoring: {packing: 1, spreading: 1}}": "scoring.spreading: Forbidden: excludes packing",
		"{kind: Args}":                          "kind: Unsupported value",
		"{filterBudgets: 1}":                    "unknown field",
		"{filterBudget: much}":                  "filterBudget",
		"{filterBudget: 1, x: [}":               "yaml",
	} {
		_, err := settingsFrom(&runtime.Unknown{Raw: []byte(text)}, everything)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"{filterTimeout: 1s}":  "filterTimeout: Forbidden: needs the feature DRASchedulerFilterTimeout",
		"{bindingTimeout: 1s}": "bindingTimeout: Forbidden: needs the features DRADeviceBindingConditions and DRAResourceClaimDeviceStatus",
	} {
		_, err := settingsFrom(&runtime.Unknown{Raw: []byte(text)}, featuresWithout(t))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s without features: error %v, want %q", text, err, want)
		}
	}
	if _, err := settingsFrom(&corev1.Pod{}, everything); err == nil {
		t.Error("arguments of another kind are no error")
	}
}

// Accounting for node-allocatable resources takes what only the in-tree plugin can give.
func TestNodeAllocatableIsRefused(t *testing.T) {
	features := everything
	features.EnableDRANodeAllocatableResources = true
	w := newWorld(t, setting{})
	if _, err := NewWithFeatures(w.ctx, nil, w.plugin.handle, features); !errors.Is(err, errNodeAllocatable) {
		t.Errorf("error %v, want %v", err, errNodeAllocatable)
	}
}
