// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"syscall"
	"time"
)

// enough is for how long an operation is repeated, in CPU time.
const enough = 200 * time.Millisecond

// cpuTime is what the process has used of all CPUs. Unlike time that passes, it does not depend on
// what else runs on the machine.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// few is how often an operation is repeated that needs something done before each time.
const few = 3

// per measures an operation by repeating it: until enough time is spent, or a few times with before
// ahead of each.
func per(before func(), operation func(n int)) figures {
	var spent time.Duration
	var bytes uint64
	done := 0
	for batch := 1; before == nil && spent < enough || before != nil && done < few; batch *= 2 {
		if before != nil {
			batch = 1
			before()
		}
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		allocated, start := stats.TotalAlloc, cpuTime()
		for range batch {
			operation(done)
			done++
		}
		spent += cpuTime() - start
		runtime.ReadMemStats(&stats)
		bytes += stats.TotalAlloc - allocated
	}
	return figures{perOp: spent / time.Duration(done), bytes: int64(bytes) / int64(done)}
}
