// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/dray-project/dray/schedplugin"
)

// TestUseDray: the default profile has Dray where it had the in-tree plugin, and nothing else changes.
func TestUseDray(t *testing.T) {
	defaults, err := schedulerconfig.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile := defaults.Profiles[0]
	before := profile.DeepCopy()
	if err := UseDray(&profile); err != nil {
		t.Fatal(err)
	}
	for i, was := range before.Plugins.MultiPoint.Enabled {
		if was.Name == names.DynamicResources {
			was.Name = schedplugin.Name
		}
		if now := profile.Plugins.MultiPoint.Enabled[i]; now != was {
			t.Errorf("plugin %d is %v, want %v", i, now, was)
		}
	}
	if names := namesOf(profile.PluginConfig); names[schedplugin.Name] != 1 || names["DynamicResources"] != 0 || len(profile.PluginConfig) != len(before.PluginConfig) {
		t.Errorf("arguments are of %v", names)
	}
	again := profile.DeepCopy()
	if err := UseDray(again); err != nil || !cmp.Equal(again, &profile) {
		t.Errorf("once more it changed, or failed: %v", err)
	}
}

// TestUseDrayAtEachPoint: a list of one extension point that names the in-tree plugin, as to order it, names Dray.
func TestUseDrayAtEachPoint(t *testing.T) {
	inTree := func() config.PluginSet {
		return config.PluginSet{Enabled: []config.Plugin{{Name: "NodeName"}, {Name: names.DynamicResources, Weight: 3}}}
	}
	profile := config.KubeSchedulerProfile{Plugins: &config.Plugins{
		MultiPoint: inTree(), PreEnqueue: inTree(), PreFilter: inTree(), Filter: inTree(), PostFilter: inTree(), Score: inTree(), Reserve: inTree(), PreBind: inTree(),
	}}
	if err := UseDray(&profile); err != nil {
		t.Fatal(err)
	}
	want := config.PluginSet{Enabled: []config.Plugin{{Name: "NodeName"}, {Name: schedplugin.Name, Weight: 3}}}
	p := profile.Plugins
	for point, set := range map[string]config.PluginSet{
		"multiPoint": p.MultiPoint, "preEnqueue": p.PreEnqueue, "preFilter": p.PreFilter, "filter": p.Filter, "postFilter": p.PostFilter, "score": p.Score, "reserve": p.Reserve, "preBind": p.PreBind,
	} {
		if !cmp.Equal(set, want) {
			t.Errorf("%s: %v", point, set)
		}
	}
}

func namesOf(configs []config.PluginConfig) map[string]int {
	names := make(map[string]int)
	for _, c := range configs {
		names[c.Name]++
	}
	return names
}

// TestUseDrayKeepsTimeouts: what the arguments of the in-tree plugin say holds for Dray.
func TestUseDrayKeepsTimeouts(t *testing.T) {
	enabled := &config.Plugins{MultiPoint: config.PluginSet{Enabled: []config.Plugin{{Name: names.DynamicResources}}}}
	given := []config.PluginConfig{{
		Name: names.DynamicResources,
		Args: &config.DynamicResourcesArgs{FilterTimeout: &metav1.Duration{Duration: 3e9}, BindingTimeout: &metav1.Duration{Duration: 7e9}},
	}}
	profile := config.KubeSchedulerProfile{Plugins: enabled, PluginConfig: given}
	if err := UseDray(&profile); err != nil {
		t.Fatal(err)
	}
	const want = `{"kind":"DrayArgs","apiVersion":"config.dray/v1alpha1","filterTimeout":"3s","bindingTimeout":"7s"}`
	if raw := string(profile.PluginConfig[0].Args.(*runtime.Unknown).Raw); raw != want {
		t.Errorf("%s, want %s", raw, want)
	}
	if enabled.MultiPoint.Enabled[0].Name != names.DynamicResources || given[0].Name != names.DynamicResources {
		t.Error("the caller's plugins or arguments were changed")
	}
	profile = config.KubeSchedulerProfile{Plugins: enabled, PluginConfig: []config.PluginConfig{{Name: names.DynamicResources, Args: &runtime.Unknown{}}}}
	if err := UseDray(&profile); err == nil {
		t.Error("arguments of another type are taken")
	}
}
