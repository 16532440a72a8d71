// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
)

// Units as in package benchfmt, which converts ns to seconds.
const (
	cpuPerOp   = "cpu-sec/op"
	cpuPerNode = "cpu-sec/node"
	allocs     = "allocs/op"
	steps      = "steps/op"
	atLeast    = "at-least-sec/op"
	wallPerOp  = "sec/op"
	undecided  = "undecided/op"
)

// Names of implementations.
const (
	upstream  = "upstream"
	own       = "dray"
	results   = "dray-results"
	facade    = "dray-structured"
	karpenter = "karpenter"
	floor     = "floor"

	oneWorker  = "workers=1"
	twoWorkers = "workers=2"

	withoutRule = "without="
	withoutNone = withoutRule + "none"
)

// series identifies measurements of one implementation in one benchmark. Paths of the comparison
// with Karpenter, which runs separately, begin with its name.
type series struct{ path, implementation, unit string }

// measurements has the medians of all series.
type measurements struct {
	// machine has what the output says of where and when it was measured, by key.
	machine map[string]string
	median  map[series]float64
}

// get returns a median, and false if it was not measured.
func (m *measurements) get(path, implementation, unit string) (float64, bool) {
	v, ok := m.median[series{path, implementation, unit}]
	return v, ok
}

// procs matches the number of processors that package testing appends to names.
var procs = regexp.MustCompile(`-\d+$`)

// aboutMachine are lines of the output that tell where and when it was measured. The go command prints some, make bench the others.
var aboutMachine = []string{"cpu", "cores", "go", "goos", "goarch", "date"}

// read parses the output of go test -bench.
func read(r io.Reader) (*measurements, error) {
	samples := make(map[series][]float64)
	m := &measurements{median: make(map[series]float64), machine: make(map[string]string)}
	reader := benchfmt.NewReader(r, "benchmarks")
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, record
		case *benchfmt.Result:
			for _, key := range aboutMachine {
				m.machine[key] = record.GetConfig(key)
			}
			path, implementation, ok := split(record.Name.String())
			if !ok {
				continue
			}
			if strings.HasSuffix(record.GetConfig("pkg"), "/"+karpenter) {
				path = karpenter + "/" + path
			}
			for _, v := range record.Values {
				key := series{path, implementation, v.Unit}
				samples[key] = append(samples[key], v.Value)
			}
		}
	}
	for key, values := range samples {
		m.median[key] = benchmath.AssumeNothing.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), 0.95).Center
	}
	if err := reader.Err(); err != nil {
		return nil, fmt.Errorf("benchmark output cannot be read: %w", err)
	}
	return m, nil
}

// split splits "Workload/fleet/nodes=100/pod=new/impl=dray-2" into the path, without the name of
// the Go function, and the implementation. If numbers of goroutines are compared, "workers=2" is
// the implementation. If a rule of the search is disabled, it is "without=equal".
func split(name string) (path, implementation string, ok bool) {
	name = procs.ReplaceAllString(name, "")
	if at := max(strings.Index(name, "/workers="), strings.Index(name, "/"+withoutRule)); at >= 0 {
		name, implementation, ok = name[:at], name[at+1:], true
	} else {
		name, implementation, ok = strings.Cut(name, "/impl=")
	}
	_, path, _ = strings.Cut(name, "/")
	return path, implementation, ok
}
