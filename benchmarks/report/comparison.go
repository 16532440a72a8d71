// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dray-project/dray/benchmarks"
)

// comparison compares all implementations in one benchmark.
type comparison struct {
	m    *measurements
	path string
	unit string // of time
}

const absent = "–"

// cell returns the time, allocations, and the ratio to upstream.
func (c comparison) cell(implementation string) string {
	v, ok := c.m.get(c.path, implementation, c.unit)
	if !ok {
		if bound, ok := c.m.get(c.path, implementation, atLeast); ok {
			return "> " + short(bound)
		}
		return absent
	}
	text := short(v)
	if n, ok := c.allocations(implementation); ok {
		text += fmt.Sprintf(", %s", amount(n))
	}
	if ratio, atLeast := c.ratio(implementation); implementation != upstream && ratio > 0 {
		text += fmt.Sprintf(" (%s%s×)", atLeast, amount(ratio))
	}
	return text
}

// ratio returns how many times less time than upstream an implementation needs, or 0 if that is
// unknown. If upstream did not finish, it is a lower bound.
func (c comparison) ratio(implementation string) (ratio float64, atLeastMark string) {
	peer, ok := c.m.get(c.path, upstream, c.unit)
	if !ok {
		peer, _ = c.m.get(c.path, upstream, atLeast)
		atLeastMark = "> "
	}
	if v, ok := c.m.get(c.path, implementation, c.unit); ok && v > 0 {
		return peer / v, atLeastMark
	}
	return 0, ""
}

// allocations returns the allocations per node, or per operation.
func (c comparison) allocations(implementation string) (float64, bool) {
	n, ok := c.m.get(c.path, implementation, allocs)
	return n / c.units(implementation), ok
}

// units returns the number of nodes in an operation, or 1 if it is measured as a whole.
func (c comparison) units(implementation string) float64 {
	perOp, known := c.m.get(c.path, implementation, cpuPerOp)
	if v, _ := c.m.get(c.path, implementation, c.unit); known && v > 0 {
		return math.Round(perOp / v)
	}
	return 1
}

func (c comparison) count(implementation, unit string) string {
	if n, ok := c.m.get(c.path, implementation, unit); ok {
		return amount(n)
	}
	return absent
}

// demand is a requirement, with what was measured.
type demand struct {
	needed string // empty: no requirement
	found  string
	met    bool
}

func (c comparison) workloadDemands(n benchmarks.Needed, pod benchmarks.Pod) []demand {
	if pod == benchmarks.FirstPod {
		return nil
	}
	demands := []demand{c.atLeast("", own, n.Ratio), c.atLeast("facade ", facade, n.Facade)}
	if n.Allocs != nil {
		found, ok := c.allocations(own)
		allowed, needed := float64(*n.Allocs), fmt.Sprintf("%d allocations", *n.Allocs)
		if pod == benchmarks.SelectorPod {
			allowed += benchmarks.CompilingAllocs / c.units(own)
			needed += fmt.Sprintf(" and %d for the expression", benchmarks.CompilingAllocs)
		}
		demands = append(demands, demand{needed, amount(found) + " allocations", ok && math.Round(found) <= allowed})
	}
	perPod := comparison{m: c.m, path: c.path, unit: cpuPerOp}
	return append(demands, perPod.atMost("pod ", own, n.PerPod[pod]))
}

func (c comparison) atLeast(whose, implementation string, ratio float64) demand {
	if ratio == 0 {
		return demand{}
	}
	found, _ := c.ratio(implementation)
	return demand{fmt.Sprintf("%s%s×", whose, amount(ratio)), fmt.Sprintf("%s%s×", whose, amount(found)), found >= ratio}
}

func (c comparison) atMost(whose, implementation string, limit time.Duration) demand {
	if limit == 0 {
		return demand{}
	}
	found, ok := c.m.get(c.path, implementation, c.unit)
	return demand{whose + short(limit.Seconds()), whose + short(found), ok && found <= limit.Seconds()}
}

func wanted(demands []demand) string {
	var texts []string
	for _, d := range demands {
		if d.needed != "" {
			texts = append(texts, d.needed)
		}
	}
	return strings.Join(texts, ", ")
}

// verdict returns "yes", or the requirements that are not met.
func verdict(demands []demand) string {
	var short []string
	for _, d := range demands {
		if d.needed != "" && !d.met {
			short = append(short, d.found)
		}
	}
	switch {
	case len(short) > 0:
		return "**no**: " + strings.Join(short, ", ")
	case wanted(demands) != "":
		return "yes"
	}
	return ""
}

// short returns a time with three significant digits.
func short(seconds float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}} {
		if seconds >= 0.9995*unit.size {
			return amount(seconds/unit.size) + " " + unit.name
		}
	}
	return amount(seconds/1e-9) + " ns"
}

// amount returns a number with at least two significant digits.
func amount(n float64) string {
	if n >= 9.95 {
		return fmt.Sprintf("%.0f", n)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0")
}
