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

// Units as package benchfmt has them, which reads ns as seconds.
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

// series is what was measured of one benchmark by one implementation. Paths of the
// comparison with Karpenter, which is a run of its own, start with its name.
type series struct{ path, implementation, unit string }

// measurements has medians.
type measurements struct {
	cpu    string // model of the processor
	median map[series]float64
}

// get is false for what was not measured.
func (m *measurements) get(path, implementation, unit string) (float64, bool) {
	v, ok := m.median[series{path, implementation, unit}]
	return v, ok
}

// procs is what testing adds to names: the number of processors.
var procs = regexp.MustCompile(`-\d+$`)

// read takes the output of go test -bench.
func read(r io.Reader) (*measurements, error) {
	samples := make(map[series][]float64)
	m := &measurements{median: make(map[series]float64)}
	reader := benchfmt.NewReader(r, "benchmarks")
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, record
		case *benchfmt.Result:
			m.cpu = record.GetConfig("cpu")
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

// split divides "Workload/fleet/nodes=100/pod=new/impl=dray-2" into what was measured,
// without the name of the Go function, and the implementation. Where goroutines are
// compared, "workers=2" takes its place, and where a rule is left out, "without=equal".
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
