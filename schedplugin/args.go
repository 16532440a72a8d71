package schedplugin

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/allocator"
)

// What apiVersion and kind of DrayArgs say, if they say anything.
const (
	ArgsAPIVersion = "config.dray/v1alpha1"
	ArgsKind       = "DrayArgs"
)

// DrayArgs are the arguments of the plugin, in pluginConfig of a scheduler configuration.
// Fields which are not set have defaults.
type DrayArgs struct {
	metav1.TypeMeta `json:",inline"`
	// FilterBudget is the number of search steps for a pod on one node, after which the
	// node counts as unsuitable. Default: allocator.DefaultBudget.
	FilterBudget *int64 `json:"filterBudget,omitempty"`
	// FilterTimeout is the time for a pod on one node, after which the node counts as
	// unsuitable; zero for no limit. Default: 10s. It needs the feature
	// DRASchedulerFilterTimeout.
	FilterTimeout *metav1.Duration `json:"filterTimeout,omitempty"`
	// BindingTimeout is how long devices with binding conditions may take to get ready,
	// at least 1s. Default: 10m. It needs the features DRADeviceBindingConditions and
	// DRAResourceClaimDeviceStatus.
	BindingTimeout *metav1.Duration `json:"bindingTimeout,omitempty"`
	// Policy says which of the devices of a node are chosen. FirstFit, the default, takes
	// them in the order in which kube-scheduler does.
	Policy string `json:"policy,omitempty"`
	// Scoring says which nodes are preferred.
	Scoring *ScoringArgs `json:"scoring,omitempty"`
	// Explain says how much is told about pods that do not get devices. Event, the default,
	// sums up all nodes in an Event of the pod. Reasons only gives the short reason for each
	// node that the scheduler adds up itself.
	Explain string `json:"explain,omitempty"`
}

// ScoringArgs are weights, from 0 to 100. A node gets the weighted mean of what speaks for
// it. Weights of zero cost nothing.
type ScoringArgs struct {
	// PrioritizedLists prefers nodes that serve prioritized lists with earlier alternatives.
	// Default: 1. It needs the feature DRAPrioritizedList.
	PrioritizedLists *int32 `json:"prioritizedLists,omitempty"`
	// Packing prefers nodes of whose devices most are in use. Default: 0.
	Packing int32 `json:"packing,omitempty"`
	// Spreading prefers nodes of whose devices least are in use. Default: 0. It excludes
	// Packing.
	Spreading int32 `json:"spreading,omitempty"`
	// LeastWaste prefers nodes on which the devices that are left stay most useful: where no
	// free partition becomes unobtainable for want of counters. Default: 0.
	LeastWaste int32 `json:"leastWaste,omitempty"`
}

// What fields of DrayArgs may say.
const (
	PolicyFirstFit = "FirstFit"
	ExplainEvent   = "Event"
	ExplainReasons = "Reasons"
)

// settings are arguments that were checked, with defaults filled in.
type settings struct {
	filterBudget   int64
	filterTimeout  time.Duration // 0: none
	bindingTimeout time.Duration
	weights        weights
	events         bool
}

// weights says what counts how much for a score.
type weights struct{ lists, packing, spreading, thrift int64 }

// onlyLists reports whether scores are those of kube-scheduler.
func (w weights) onlyLists() bool { return w.packing+w.spreading+w.thrift == 0 }

// settingsFrom decodes arguments, strictly. Errors name the field.
func settingsFrom(raw runtime.Object, features feature.Features) (settings, error) {
	args, err := decodeArgs(raw)
	if err != nil {
		return settings{}, err
	}
	if err := args.validate(features).ToAggregate(); err != nil {
		return settings{}, err
	}
	return args.settings(features), nil
}

func decodeArgs(raw runtime.Object) (*DrayArgs, error) {
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
	if a.Policy != "" && a.Policy != PolicyFirstFit {
		errs = append(errs, field.NotSupported(field.NewPath("policy"), a.Policy, []string{PolicyFirstFit}))
	}
	if a.Explain != "" && a.Explain != ExplainEvent && a.Explain != ExplainReasons {
		errs = append(errs, field.NotSupported(field.NewPath("explain"), a.Explain, []string{ExplainEvent, ExplainReasons}))
	}
	errs = append(errs, a.Scoring.validate(field.NewPath("scoring"))...)
	errs = append(errs, validateTimeout("filterTimeout", a.FilterTimeout, 0, features.EnableDRASchedulerFilterTimeout,
		"needs the feature DRASchedulerFilterTimeout")...)
	return append(errs, validateTimeout("bindingTimeout", a.BindingTimeout, time.Second, coreFeatures(features).DeviceBindingAndStatus,
		"needs the features DRADeviceBindingConditions and DRAResourceClaimDeviceStatus")...)
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

func (a *DrayArgs) settings(features feature.Features) settings {
	s := settings{
		filterBudget:   allocator.DefaultBudget,
		bindingTimeout: config.DynamicResourcesBindingTimeoutDefault,
		events:         a.Explain != ExplainReasons,
		weights:        weights{lists: 1},
	}
	if w := a.Scoring; w != nil {
		s.weights = weights{
			lists: int64(ptr.Deref(w.PrioritizedLists, 1)), packing: int64(w.Packing), spreading: int64(w.Spreading), thrift: int64(w.LeastWaste),
		}
	}
	if !features.EnableDRAPrioritizedList {
		s.weights.lists = 0
	}
	if features.EnableDRASchedulerFilterTimeout {
		s.filterTimeout = config.DynamicResourcesFilterTimeoutDefault
	}
	if a.FilterBudget != nil {
		s.filterBudget = *a.FilterBudget
	}
	if a.FilterTimeout != nil {
		s.filterTimeout = a.FilterTimeout.Duration
	}
	if a.BindingTimeout != nil {
		s.bindingTimeout = a.BindingTimeout.Duration
	}
	return s
}
