package benchmarks

import (
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
	since   time.Duration
	spent   time.Duration
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
		m.running, m.since = true, cpuTime()
	case !more && m.running:
		m.running, m.spent = false, m.spent+cpuTime()-m.since
	}
	return more
}

// aside does something that is not measured.
func (m *meter) aside(f func()) {
	m.b.StopTimer()
	m.spent += cpuTime() - m.since
	f()
	m.since = cpuTime()
	m.b.StartTimer()
}

// report adds the CPU time per operation, and per unit of which an operation has several.
func (m *meter) report(unit string, units int) {
	perOp := float64(m.spent.Nanoseconds()) / float64(m.b.N)
	m.b.ReportMetric(perOp, "cpu-ns/op")
	if unit != "" {
		m.b.ReportMetric(perOp/float64(units), "cpu-ns/"+unit)
	}
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
