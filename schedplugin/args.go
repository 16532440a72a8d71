package schedplugin

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
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
}

// settings are arguments that were checked, with defaults filled in.
type settings struct {
	filterBudget   int64
	filterTimeout  time.Duration // 0: none
	bindingTimeout time.Duration
}

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
	errs = append(errs, validateTimeout("filterTimeout", a.FilterTimeout, 0, features.EnableDRASchedulerFilterTimeout,
		"needs the feature DRASchedulerFilterTimeout")...)
	return append(errs, validateTimeout("bindingTimeout", a.BindingTimeout, time.Second, coreFeatures(features).DeviceBindingAndStatus,
		"needs the features DRADeviceBindingConditions and DRAResourceClaimDeviceStatus")...)
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
