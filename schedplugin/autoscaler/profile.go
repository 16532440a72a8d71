// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/dray-project/dray/schedplugin"
	drayconfig "github.com/dray-project/dray/schedplugin/config"
)

// UseDray replaces the plugin DynamicResources of a profile by Dray, wherever it is enabled, with the same
// weight and timeouts. It is for programs that make their profiles in Go. The registry needs the plugin, too:
// see schedplugin.Registry. A profile that does not enable DynamicResources is not changed. It is an error if
// the arguments of DynamicResources do not have the scheduler's own type.
func UseDray(profile *config.KubeSchedulerProfile) error {
	if profile.Plugins == nil {
		return nil
	}
	if !slices.ContainsFunc(profile.Plugins.MultiPoint.Enabled, isInTree) {
		return nil
	}
	plugins := profile.Plugins.DeepCopy()
	for _, set := range []*config.PluginSet{
		&plugins.MultiPoint, &plugins.PreEnqueue, &plugins.PreFilter, &plugins.Filter, &plugins.PostFilter, &plugins.Score, &plugins.Reserve, &plugins.PreBind,
	} {
		for i := range set.Enabled {
			if isInTree(set.Enabled[i]) {
				set.Enabled[i].Name = schedplugin.Name
			}
		}
	}
	pluginConfig := slices.Clone(profile.PluginConfig)
	for i, c := range pluginConfig {
		if c.Name != names.DynamicResources {
			continue
		}
		args, err := argsOf(c.Args)
		if err != nil {
			return fmt.Errorf("profile %s: %w", profile.SchedulerName, err)
		}
		pluginConfig[i] = config.PluginConfig{Name: schedplugin.Name, Args: args}
	}
	profile.Plugins, profile.PluginConfig = plugins, pluginConfig
	return nil
}

func isInTree(plugin config.Plugin) bool { return plugin.Name == names.DynamicResources }

// argsOf converts arguments of the in-tree plugin to arguments of Dray.
func argsOf(args runtime.Object) (runtime.Object, error) {
	inTree, ok := args.(*config.DynamicResourcesArgs)
	if !ok {
		return nil, fmt.Errorf("arguments of %s are of type %T, want %T", names.DynamicResources, args, inTree)
	}
	raw, err := json.Marshal(struct {
		metav1.TypeMeta
		FilterTimeout  *metav1.Duration `json:"filterTimeout,omitempty"`
		BindingTimeout *metav1.Duration `json:"bindingTimeout,omitempty"`
	}{
		metav1.TypeMeta{APIVersion: drayconfig.ArgsAPIVersion, Kind: drayconfig.ArgsKind}, inTree.FilterTimeout, inTree.BindingTimeout,
	})
	return &runtime.Unknown{Raw: raw}, err
}
