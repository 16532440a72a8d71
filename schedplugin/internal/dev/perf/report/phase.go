// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// phase is the Filter phase of one pod, without API server, once.
type phase struct {
	Workload   string  `json:"workload"`
	Contestant string  `json:"contestant"`
	CPUSeconds float64 `json:"cpuSeconds"`
}

var phaseLine = regexp.MustCompile(`^BenchmarkFilterPhase/(\S+)/(in-tree|dray)(?:-\d+)?\s`)

// readPhases reads the output of BenchmarkFilterPhase, if there is any.
func readPhases(path string) ([]phase, error) {
	output, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []phase
	for line := range strings.SplitSeq(string(output), "\n") {
		names := phaseLine.FindStringSubmatch(line)
		if names == nil {
			continue
		}
		fields := strings.Fields(line)
		at := slices.Index(fields, "cpu-ns/pod")
		if at < 1 {
			return nil, fmt.Errorf("%s: %q has no CPU time", path, line)
		}
		spent, err := strconv.ParseFloat(fields[at-1], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, line, err)
		}
		found = append(found, phase{Workload: names[1], Contestant: names[2], CPUSeconds: spent / 1e9})
	}
	return found, nil
}

// phaseMedian is the middle of what the runs of a workload and a contestant give.
func (r *results) phaseMedian(workload, contestant string) (float64, bool) {
	var values []float64
	for _, p := range r.FilterPhase {
		if p.Workload == workload && p.Contestant == contestant {
			values = append(values, p.CPUSeconds)
		}
	}
	return middle(values)
}
