// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/allocator"
)

// Decode reads arguments as a scheduler configuration has them. Unknown fields are errors. Nil stands for the
// defaults. Errors name the field. Features are those of the scheduler.
func Decode(raw runtime.Object, features feature.Features) (*DrayArgs, error) {
	args := &DrayArgs{
		FilterBudget: allocator.DefaultBudget,
		Scoring:      ScoringArgs{PrioritizedLists: 1},
		Explain:      ExplainEvent,
		Events:       EventLimits{QPS: 5, Burst: 100, PodBurst: 3},
	}
	switch object := raw.(type) {
	case nil:
	case *runtime.Unknown:
		// JSON is YAML, too.
		if err := yaml.UnmarshalStrict(object.Raw, args); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("they are %T, want %s", raw, ArgsKind)
	}
	args.setTimes(features)
	if err := args.validate(features).ToAggregate(); err != nil {
		return nil, err
	}
	if !features.EnableDRAPrioritizedList {
		args.Scoring.PrioritizedLists = 0
	}
	return args, nil
}

// setTimes sets the defaults of times. If the feature of a time is off, it is zero.
func (a *DrayArgs) setTimes(features feature.Features) {
	filter, binding := &metav1.Duration{}, &metav1.Duration{}
	if features.EnableDRASchedulerFilterTimeout {
		filter.Duration = config.DynamicResourcesFilterTimeoutDefault
	}
	if bindsConditionally(features) {
		binding.Duration = config.DynamicResourcesBindingTimeoutDefault
	}
	a.FilterTimeout, a.BindingTimeout = cmp.Or(a.FilterTimeout, filter), cmp.Or(a.BindingTimeout, binding)
	a.Events.PodPeriod = cmp.Or(a.Events.PodPeriod, &metav1.Duration{Duration: 5 * time.Minute})
}

func bindsConditionally(features feature.Features) bool {
	return features.EnableDRADeviceBindingConditions && features.EnableDRAResourceClaimDeviceStatus
}

func (a *DrayArgs) validate(features feature.Features) (errs field.ErrorList) {
	oneOf := func(name, value string, supported ...string) {
		if value != "" && !slices.Contains(supported, value) {
			errs = append(errs, field.NotSupported(field.NewPath(name), value, supported))
		}
	}
	oneOf("apiVersion", a.APIVersion, ArgsAPIVersion)
	oneOf("kind", a.Kind, ArgsKind)
	oneOf("explain", a.Explain, ExplainEvent, ExplainReasons)
	if _, err := allocator.PolicyNamed(a.Policy); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("policy"), a.Policy, err.Error()))
	}
	if err := allocator.CheckTopology(a.Topology); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("topology"), a.Topology, err.Error()))
	}
	positive := func(is bool, path *field.Path, value any) {
		if !is {
			errs = append(errs, field.Invalid(path, value, "must be positive"))
		}
	}
	events := field.NewPath("events")
	positive(a.FilterBudget > 0, field.NewPath("filterBudget"), a.FilterBudget)
	positive(a.Events.QPS > 0, events.Child("qps"), a.Events.QPS)
	positive(a.Events.Burst > 0, events.Child("burst"), a.Events.Burst)
	positive(a.Events.PodBurst > 0, events.Child("podBurst"), a.Events.PodBurst)
	positive(a.Events.PodPeriod.Duration > 0, events.Child("podPeriod"), a.Events.PodPeriod.Duration.String())
	errs = append(errs, a.Scoring.validate(field.NewPath("scoring"))...)
	errs = append(errs, validateTimeout("filterTimeout", a.FilterTimeout.Duration, 0, features.EnableDRASchedulerFilterTimeout,
		"needs the feature DRASchedulerFilterTimeout")...)
	return append(errs, validateTimeout("bindingTimeout", a.BindingTimeout.Duration, time.Second, bindsConditionally(features),
		"needs the features DRADeviceBindingConditions and DRAResourceClaimDeviceStatus")...)
}

func (s ScoringArgs) validate(path *field.Path) (errs field.ErrorList) {
	for name, weight := range map[string]int64{
		"prioritizedLists": s.PrioritizedLists, "packing": s.Packing, "spreading": s.Spreading, "leastWaste": s.LeastWaste,
	} {
		if weight < 0 || weight > 100 {
			errs = append(errs, field.Invalid(path.Child(name), weight, "must be from 0 to 100"))
		}
	}
	if s.Packing != 0 && s.Spreading != 0 {
		errs = append(errs, field.Forbidden(path.Child("spreading"), "excludes packing"))
	}
	return errs
}

// validateTimeout refuses a timeout whose feature is off.
func validateTimeout(name string, timeout, least time.Duration, allowed bool, need string) field.ErrorList {
	path := field.NewPath(name)
	switch {
	case !allowed && timeout != 0:
		return field.ErrorList{field.Forbidden(path, need)}
	case allowed && timeout < least:
		return field.ErrorList{field.Invalid(path, timeout.String(), fmt.Sprintf("must be at least %s", least))}
	}
	return nil
}
