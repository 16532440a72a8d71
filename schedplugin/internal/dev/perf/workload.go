// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	_ "embed" // for the workloads
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed config/workloads.yaml
var workloadFile []byte

// Workload is a series of operations in the format of scheduler_perf, of which only what is
// needed to take a file apart is understood here.
type Workload struct {
	testCase, name string
	labels         []string
	params         map[string]any
	// document is the test case with this workload alone.
	document map[string]any
}

// Workloads returns what is measured, in the order of the file.
func Workloads() ([]Workload, error) {
	var cases []map[string]any
	// Not strictly: what a workload takes over from another one, it may overwrite.
	if err := yaml.Unmarshal(workloadFile, &cases); err != nil {
		return nil, fmt.Errorf("workloads: %w", err)
	}
	var found []Workload
	for _, document := range cases {
		list, ok := document["workloads"].([]any)
		if !ok {
			return nil, fmt.Errorf("workloads: case %v has none", document["name"])
		}
		for _, item := range list {
			one, ok := item.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("workloads: case %v: %v is not an object", document["name"], item)
			}
			found = append(found, newWorkload(document, one))
		}
	}
	return found, nil
}

func newWorkload(document, one map[string]any) Workload {
	w := Workload{testCase: fmt.Sprint(document["name"]), name: fmt.Sprint(one["name"]), document: maps.Clone(document)}
	w.params, _ = one["params"].(map[string]any)
	labels, _ := one["labels"].([]any)
	for _, label := range labels {
		w.labels = append(w.labels, fmt.Sprint(label))
	}
	w.document["workloads"] = []any{one}
	return w
}

// String is case/workload.
func (w Workload) String() string { return w.testCase + "/" + w.name }

// Labelled reports whether the workload has a label. Labels say its size.
func (w Workload) Labelled(label string) bool { return slices.Contains(w.labels, label) }

// SearchBound reports whether finding devices needs so much searching that it decides how
// many pods get scheduled.
func (w Workload) SearchBound() bool { return strings.HasPrefix(w.name, "backtracking") }

// Burst is how many pods are created at once. Zero: it is a steady state, in which each pod
// that was scheduled is replaced by another one.
func (w Workload) Burst() int {
	if w.params["duration"] != nil && w.params["steady"] != false {
		return 0
	}
	pods, _ := w.params["pods"].(float64)
	return int(pods)
}

// writeFor writes the workload as a file of its own, to be run with a scheduler configuration.
func (w Workload) writeFor(folder, config string) (path string, err error) {
	document := maps.Clone(w.document)
	if config != "" {
		document["schedulerConfigPath"] = config
	}
	content, err := yaml.Marshal([]any{document})
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "workload.yaml")
	return path, os.WriteFile(path, content, 0o600)
}
