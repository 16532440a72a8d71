// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Scheduler chooses which plugin allocates devices.
type Scheduler string

// The schedulers that a control plane can have. Both are the same program.
const (
	InTree Scheduler = "in-tree" // kube-scheduler's own DynamicResources
	Dray   Scheduler = "dray"
)

// Set parses what a flag or an environment variable holds.
func (s *Scheduler) Set(text string) error {
	if known := []Scheduler{InTree, Dray}; !slices.Contains(known, Scheduler(text)) {
		return fmt.Errorf("scheduler %q: want one of %v", text, known)
	}
	*s = Scheduler(text)
	return nil
}

// String is what Set parses.
func (s *Scheduler) String() string { return string(*s) }

// Type names the values in a flag's usage.
func (s *Scheduler) Type() string { return "scheduler" }

// Plugin is the name of the plugin that allocates devices.
func (s *Scheduler) Plugin() string {
	if *s == InTree {
		return "DynamicResources, the plugin in the tree"
	}
	return "Dray"
}

// Options are what may differ from one control plane to the next.
type Options struct {
	Binaries  Binaries
	Scheduler Scheduler
	// APIServerOnly leaves out the controllers and the scheduler.
	APIServerOnly bool
	// Features overrides DeviceFeatures, for all components alike.
	Features map[string]bool
	// SchedulerFeatures overrides them for schedulers, until SetSchedulerFeatures does.
	SchedulerFeatures map[string]bool
	// SchedulerVerbosity is the scheduler's log level.
	SchedulerVerbosity int
	// SchedulerServer returns the URL by which the scheduler reaches the API server, for a
	// proxy in between. It is asked each time the scheduler starts; nil stands for none.
	SchedulerServer func(*ControlPlane) (string, error)
}

// DeviceFeatures are the feature gates of Kubernetes 1.37 that concern devices and are off
// by default.
func DeviceFeatures() map[string]bool {
	return map[string]bool{
		"DRADerivedAttributes":         true,
		"DRADeviceCompatibilityGroups": true,
		"DRAListTypeAttributes":        true,
		"DRAOptionalNodeOperations":    true,
		"DRAPartitionableDevicesType":  true,
		"DRAResourcePoolStatus":        true,
		"DRAWorkloadResourceClaims":    true,
		"GenericWorkload":              true,
	}
}

// featureGates is the argument that all components share, but for some gates.
func (o Options) featureGates(own map[string]bool) string {
	gates := DeviceFeatures()
	maps.Copy(gates, o.Features)
	maps.Copy(gates, own)
	var settings []string
	for _, gate := range slices.Sorted(maps.Keys(gates)) {
		settings = append(settings, fmt.Sprintf("%s=%t", gate, gates[gate]))
	}
	return "--feature-gates=" + strings.Join(settings, ",")
}

// absolute is the options with paths that hold in any working directory.
func (o Options) absolute() (Options, error) {
	for _, path := range o.Binaries.paths() {
		full, err := filepath.Abs(*path)
		if err != nil {
			return o, err
		}
		*path = full
	}
	return o, o.Binaries.check()
}

func newFolder() (string, error) {
	folder, err := os.MkdirTemp("", "dray-controlplane-")
	if err != nil {
		return "", fmt.Errorf("folder of the control plane: %w", err)
	}
	return folder, nil
}
