// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/google/pprof/profile"
)

// cpuSeconds is where CPU time went while measuring, by a profile of the process. What the
// garbage collector does in the background counts for the process alone.
type cpuSeconds struct {
	// Process has API server, controllers and scheduler in it. Etcd is another process.
	Process float64 `json:"process"`
	// Scheduler is the scheduler alone, with the plugin.
	Scheduler float64 `json:"scheduler"`
	// Plugin is the plugin alone, without what the framework does for it.
	Plugin float64 `json:"plugin"`
}

// Functions by which samples are recognised: prefixes of their names.
var (
	schedulerCode = []string{"k8s.io/kubernetes/pkg/scheduler.", "k8s.io/kubernetes/pkg/scheduler/", "github.com/dray-project/dray/"}
	pluginCode    = map[string][]string{
		"in-tree": {"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources.(*DynamicResources)"},
		"dray":    {"github.com/dray-project/dray/"},
		"floor":   {"github.com/dray-project/dray/schedplugin/internal/dev/perf."},
	}
)

func readProfile(path, contestant string) (cpuSeconds, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return cpuSeconds{}, err
	}
	p, err := profile.ParseData(content)
	if err != nil {
		return cpuSeconds{}, fmt.Errorf("%s: %w", path, err)
	}
	return attribute(p, pluginCode[contestant]), nil
}

func attribute(p *profile.Profile, plugin []string) cpuSeconds {
	var spent cpuSeconds
	for _, sample := range p.Sample {
		seconds := float64(sample.Value[len(sample.Value)-1]) / 1e9
		spent.Process += seconds
		if within(sample, schedulerCode) {
			spent.Scheduler += seconds
		}
		if within(sample, plugin) {
			spent.Plugin += seconds
		}
	}
	return spent
}

// within reports whether a sample was taken in a function, or in one that it called.
func within(sample *profile.Sample, functions []string) bool {
	for _, location := range sample.Location {
		for _, line := range location.Line {
			for _, prefix := range functions {
				if line.Function != nil && strings.HasPrefix(line.Function.Name, prefix) {
					return true
				}
			}
		}
	}
	return false
}
