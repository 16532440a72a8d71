// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/dray-project/dray/allocator"
)

// meter measures operations by the CPU time of the process, garbage collection
// included, next to the time on the clock: on a machine that is shared, that one says
// more about the others.
type meter struct {
	b       *testing.B
	running bool
	since   reading
	spent   reading
}

// reading is what the process has used so far, or between two readings.
type reading struct {
	cpu            time.Duration
	bytes, mallocs uint64
}

func read() reading {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return reading{cpuTime(), memory.TotalAlloc, memory.Mallocs}
}

// stop adds what was used since the meter was started.
func (m *meter) stop() {
	now := read()
	m.spent.cpu += now.cpu - m.since.cpu
	m.spent.bytes += now.bytes - m.since.bytes
	m.spent.mallocs += now.mallocs - m.since.mallocs
}

func newMeter(b *testing.B) *meter {
	b.ReportAllocs()
	return &meter{b: b}
}

// loop is b.Loop.
func (m *meter) loop() bool {
	more := m.b.Loop()
	switch {
	case more && !m.running:
		m.running, m.since = true, read()
	case !more && m.running:
		m.running = false
		m.stop()
	}
	return more
}

// aside does something that is not measured.
func (m *meter) aside(f func()) {
	m.b.StopTimer()
	m.stop()
	f()
	m.since = read()
	m.b.StartTimer()
}

// report adds the CPU time per operation, and per unit of which an operation has several.
func (m *meter) report(unit string, units int) {
	perOp := float64(m.spent.cpu.Nanoseconds()) / float64(m.b.N)
	m.b.ReportMetric(perOp, "cpu-ns/op")
	if unit != "" {
		m.b.ReportMetric(perOp/float64(units), "cpu-ns/"+unit)
	}
}

// reportSample is report for an operation that asked about a part of the units only. All columns of a row are about all
// of them, so that rows of those who were asked about all are comparable.
func (m *meter) reportSample(unit string, units, all int) {
	m.report(unit, units)
	if units == all {
		return
	}
	ops := float64(m.b.N) * float64(units) / float64(all)
	m.b.ReportMetric(float64(m.spent.cpu.Nanoseconds())/ops, "cpu-ns/op")
	m.b.ReportMetric(float64(m.b.Elapsed().Nanoseconds())/ops, "ns/op")
	m.b.ReportMetric(float64(m.spent.bytes)/ops, "B/op")
	m.b.ReportMetric(float64(m.spent.mallocs)/ops, "allocs/op")
	m.b.ReportMetric(float64(units), "nodes-asked")
}

// reportWork adds what Dray says about its work on one pod.
func (m *meter) reportWork(work allocator.Stats) {
	m.b.ReportMetric(float64(work.Steps), "steps/op")
	m.b.ReportMetric(float64(work.CELEvaluations), "cel-evaluations/op")
}

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
