// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/allocator"
)

// Settings are arguments that were checked, with defaults filled in. DrayArgs says what the
// fields mean.
type Settings struct {
	FilterBudget   int64
	FilterTimeout  time.Duration // 0: none
	BindingTimeout time.Duration
	Weights        Weights
	Policy         allocator.Policy
	Topology       []resourceapi.FullyQualifiedName
	// Events is set if Events are written about pods that do not get devices.
	Events       bool
	Limits       Limits
	SwitchesFile string
}

// Weights say what counts how much for a score, each from 0 to 100.
type Weights struct{ Lists, Packing, Spreading, Thrift int64 }

// OnlyLists reports whether scores are those of kube-scheduler.
func (w Weights) OnlyLists() bool { return w.Packing+w.Spreading+w.Thrift == 0 }

// Sum is what the weights are together.
func (w Weights) Sum() int64 { return w.Lists + w.Packing + w.Spreading + w.Thrift }

// Limits are EventLimits with defaults filled in. QPS is per second.
type Limits struct {
	QPS             float64
	Burst, PodBurst int32
	PodPeriod       time.Duration
}

// Decode reads arguments as a scheduler configuration has them, strictly. Nil stands for the
// defaults. Errors name the field. Features are those of the scheduler.
func Decode(raw runtime.Object, features feature.Features) (Settings, error) {
	args, err := parse(raw)
	if err != nil {
		return Settings{}, err
	}
	if err := args.validate(features).ToAggregate(); err != nil {
		return Settings{}, err
	}
	return args.settings(features), nil
}

func parse(raw runtime.Object) (*DrayArgs, error) {
	args := &DrayArgs{}
	switch object := raw.(type) {
	case nil:
	case *runtime.Unknown:
		if object == nil || len(object.Raw) == 0 {
			break
		}
		// JSON is YAML, too.
		if err := yaml.UnmarshalStrict(object.Raw, args); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("they are %T, want %s", raw, ArgsKind)
	}
	return args, nil
}

func (a *DrayArgs) validate(features feature.Features) field.ErrorList {
	var errs field.ErrorList
	if a.APIVersion != "" && a.APIVersion != ArgsAPIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), a.APIVersion, []string{ArgsAPIVersion}))
	}
	if a.Kind != "" && a.Kind != ArgsKind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), a.Kind, []string{ArgsKind}))
	}
	if a.FilterBudget != nil && *a.FilterBudget <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("filterBudget"), *a.FilterBudget, "must be positive"))
	}
	if _, err := allocator.PolicyNamed(a.Policy); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("policy"), a.Policy, err.Error()))
	}
	if err := allocator.CheckTopology(a.Topology); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("topology"), a.Topology, err.Error()))
	}
	if a.Explain != "" && a.Explain != ExplainEvent && a.Explain != ExplainReasons {
		errs = append(errs, field.NotSupported(field.NewPath("explain"), a.Explain, []string{ExplainEvent, ExplainReasons}))
	}
	errs = append(errs, a.Events.validate(field.NewPath("events"))...)
	errs = append(errs, a.Scoring.validate(field.NewPath("scoring"))...)
	errs = append(errs, validateTimeout("filterTimeout", a.FilterTimeout, 0, features.EnableDRASchedulerFilterTimeout,
		"needs the feature DRASchedulerFilterTimeout")...)
	return append(errs, validateTimeout("bindingTimeout", a.BindingTimeout, time.Second, features.EnableDRADeviceBindingConditions && features.EnableDRAResourceClaimDeviceStatus,
		"needs the features DRADeviceBindingConditions and DRAResourceClaimDeviceStatus")...)
}

func (l *EventLimits) validate(path *field.Path) field.ErrorList {
	if l == nil {
		return nil
	}
	var errs field.ErrorList
	if l.QPS != nil && *l.QPS <= 0 {
		errs = append(errs, field.Invalid(path.Child("qps"), *l.QPS, "must be positive"))
	}
	if l.Burst != nil && *l.Burst <= 0 {
		errs = append(errs, field.Invalid(path.Child("burst"), *l.Burst, "must be positive"))
	}
	if l.PodPeriod != nil && l.PodPeriod.Duration <= 0 {
		errs = append(errs, field.Invalid(path.Child("podPeriod"), l.PodPeriod.Duration.String(), "must be positive"))
	}
	if l.PodBurst != nil && *l.PodBurst <= 0 {
		errs = append(errs, field.Invalid(path.Child("podBurst"), *l.PodBurst, "must be positive"))
	}
	return errs
}

func (l *EventLimits) checked() Limits {
	if l == nil {
		l = &EventLimits{}
	}
	return Limits{
		QPS:       ptr.Deref(l.QPS, 5),
		Burst:     ptr.Deref(l.Burst, 100),
		PodBurst:  ptr.Deref(l.PodBurst, 3),
		PodPeriod: ptr.Deref(l.PodPeriod, metav1.Duration{Duration: 5 * time.Minute}).Duration,
	}
}

func (a *ScoringArgs) validate(path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	var errs field.ErrorList
	for name, weight := range map[string]int32{
		"prioritizedLists": ptr.Deref(a.PrioritizedLists, 0), "packing": a.Packing, "spreading": a.Spreading, "leastWaste": a.LeastWaste,
	} {
		if weight < 0 || weight > 100 {
			errs = append(errs, field.Invalid(path.Child(name), weight, "must be from 0 to 100"))
		}
	}
	if a.Packing != 0 && a.Spreading != 0 {
		errs = append(errs, field.Forbidden(path.Child("spreading"), "excludes packing"))
	}
	return errs
}

func validateTimeout(name string, timeout *metav1.Duration, least time.Duration, allowed bool, need string) field.ErrorList {
	path := field.NewPath(name)
	switch {
	case timeout == nil:
	case !allowed:
		return field.ErrorList{field.Forbidden(path, need)}
	case timeout.Duration < least:
		return field.ErrorList{field.Invalid(path, timeout.Duration.String(), fmt.Sprintf("must be at least %s", least))}
	}
	return nil
}

func (a *DrayArgs) settings(features feature.Features) Settings {
	policy, err := allocator.PolicyNamed(a.Policy)
	if err != nil {
		panic("arguments that were not checked: " + err.Error())
	}
	s := Settings{
		Policy:         policy,
		Topology:       a.Topology,
		FilterBudget:   allocator.DefaultBudget,
		BindingTimeout: config.DynamicResourcesBindingTimeoutDefault,
		Events:         a.Explain != ExplainReasons,
		Limits:         a.Events.checked(),
		SwitchesFile:   a.SwitchesFile,
		Weights:        Weights{Lists: 1},
	}
	if w := a.Scoring; w != nil {
		s.Weights = Weights{
			Lists: int64(ptr.Deref(w.PrioritizedLists, 1)), Packing: int64(w.Packing), Spreading: int64(w.Spreading), Thrift: int64(w.LeastWaste),
		}
	}
	if !features.EnableDRAPrioritizedList {
		s.Weights.Lists = 0
	}
	if features.EnableDRASchedulerFilterTimeout {
		s.FilterTimeout = config.DynamicResourcesFilterTimeoutDefault
	}
	if a.FilterBudget != nil {
		s.FilterBudget = *a.FilterBudget
	}
	if a.FilterTimeout != nil {
		s.FilterTimeout = a.FilterTimeout.Duration
	}
	if a.BindingTimeout != nil {
		s.BindingTimeout = a.BindingTimeout.Duration
	}
	return s
}
