// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"syscall"
	"testing"
	"time"
)

// meter measures operations by the CPU time of the process, garbage collection
// included, next to the time on the clock: machines are shared.
type meter struct {
	b       *testing.B
	started bool
	spent   time.Duration // less cpuTime() at the start of what is being measured
}

func newMeter(b *testing.B) *meter {
	b.ReportAllocs()
	return &meter{b: b}
}

// loop is b.Loop.
func (m *meter) loop() bool {
	more := m.b.Loop()
	switch {
	case more && !m.started:
		m.started, m.spent = true, -cpuTime()
	case !more:
		m.spent += cpuTime()
	}
	return more
}

// aside does something that is not measured.
func (m *meter) aside(f func()) {
	m.b.StopTimer()
	m.spent += cpuTime()
	f()
	m.spent -= cpuTime()
	m.b.StartTimer()
}

// report adds the CPU time per operation, and per unit of which an operation has several.
func (m *meter) report(unit string, units int) {
	perOp := float64(m.spent.Nanoseconds()) / float64(m.b.N)
	m.b.ReportMetric(perOp, "cpu-ns/op")
	m.b.ReportMetric(perOp/float64(units), "cpu-ns/"+unit)
}

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
