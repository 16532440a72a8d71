// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"syscall"
	"time"
)

// enough is how much CPU time repetitions of an operation use.
const enough = 200 * time.Millisecond

// cpuTime returns the CPU time of the process. Unlike wall-clock time, it does not depend on other
// processes.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// few is the number of repetitions of an operation that needs a preparation each time.
const few = 3

// per measures an operation by repetition: until enough CPU time was used, or a few times with
// before ahead of each.
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
