// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// scheduling is one workload run by one contestant.
type scheduling struct {
	Workload   string `json:"workload"`
	Contestant string `json:"contestant"`
	Round      int    `json:"round"`
	// PodsPerSecond is the mean of samples taken every second, or, for a burst, of all pods.
	PodsPerSecond float64 `json:"podsPerSecond"`
	// Pods is about how many were scheduled while measuring.
	Pods float64 `json:"pods"`
	// Seconds is how long was measured.
	Seconds float64 `json:"seconds"`
	// Latency is by extension point, and that of whole cycles under "attempt".
	Latency map[string]quantiles `json:"latency"`
	CPU     cpuSeconds           `json:"cpu"`
}

// quantiles are in milliseconds.
type quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// item is one of the figures that scheduler_perf writes.
type item struct {
	Data   map[string]float64 `json:"data"`
	Labels map[string]string  `json:"labels"`
}

// wholeCycle is the name of the latency of scheduling and binding one pod.
const wholeCycle = "attempt"

// readThroughput reads the files that scheduler_perf wrote into a folder.
func readThroughput(folder string) ([]scheduling, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "BenchmarkPerfScheduling_*.json"))
	if err != nil {
		return nil, err
	}
	var all []scheduling
	for _, path := range paths {
		one, err := readRun(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, *one)
	}
	return all, nil
}

func readRun(path string) (*scheduling, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		DataItems []item `json:"dataItems"`
	}
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, err
	}
	if len(file.DataItems) == 0 {
		return nil, errors.New("it has no figures")
	}
	s := &scheduling{Latency: make(map[string]quantiles)}
	if err := s.identify(file.DataItems[0].Labels["Name"]); err != nil {
		return nil, err
	}
	for _, figure := range file.DataItems {
		s.add(figure)
	}
	burst, err := burstOf(s.Workload)
	if err != nil {
		return nil, err
	}
	if s.Pods = s.PodsPerSecond * s.Seconds; burst > 0 {
		s.Pods, s.PodsPerSecond = float64(burst), float64(burst)/s.Seconds
	}
	prefix := strings.ReplaceAll(fmt.Sprintf("%s_%s-%d", s.Workload, s.Contestant, s.Round), "/", "_")
	s.CPU, err = readProfile(filepath.Join(filepath.Dir(path), prefix+"-cpu.prof"), s.Contestant)
	return s, err
}

// identify takes a name apart: benchmark/case/workload/contestant-round/...
func (s *scheduling) identify(name string) error {
	parts := strings.Split(name, "/")
	if len(parts) < 4 {
		return fmt.Errorf("name %q: want case, workload and contestant", name)
	}
	dash := strings.LastIndex(parts[3], "-")
	round, err := strconv.Atoi(parts[3][dash+1:])
	if err != nil {
		return fmt.Errorf("name %q: round: %w", name, err)
	}
	s.Workload, s.Contestant, s.Round = parts[1]+"/"+parts[2], parts[3][:max(dash, 0)], round
	return nil
}

func (s *scheduling) add(figure item) {
	point := ""
	switch figure.Labels["Metric"] {
	case "SchedulingThroughput":
		s.PodsPerSecond = figure.Data["Average"]
	case "SchedulingDuration":
		s.Seconds = figure.Data["Duration"]
	case "scheduler_framework_extension_point_duration_seconds":
		point = figure.Labels["extension_point"]
	case "scheduler_scheduling_attempt_duration_seconds":
		if figure.Labels["result"] == "scheduled" {
			point = wholeCycle
		}
	}
	if point != "" {
		s.Latency[point] = quantiles{P50: figure.Data["Perc50"], P99: figure.Data["Perc99"]}
	}
}

// median is the middle of what the rounds of a workload and a contestant give.
func (r *results) median(workload, contestant string, figure func(*scheduling) float64) (float64, bool) {
	var values []float64
	for i := range r.Throughput {
		if s := &r.Throughput[i]; s.Workload == workload && s.Contestant == contestant {
			values = append(values, figure(s))
		}
	}
	return middle(values)
}

func middle(values []float64) (float64, bool) {
	if len(values) == 0 {
		return 0, false
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2, true
}
