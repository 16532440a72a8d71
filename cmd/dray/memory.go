// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// firstCollection is how much memory is in use before garbage is collected for the first time, and heldOff how long it is not.
const (
	firstCollection = 384 << 20
	heldOff         = 30 * time.Second
)

// collectLate has garbage left alone at first. What is read of a cluster stays until the end: looking for garbage again and
// again while it is read takes a fifth of all time. From the first collection on, and for what runs longer, all is as usual. Who
// says by GOGC or GOMEMLIMIT how it is to be is obeyed.
func collectLate() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	percent := debug.SetGCPercent(-1)
	debug.SetMemoryLimit(firstCollection)
	asUsual := sync.OnceFunc(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(math.MaxInt64)
	})
	runtime.AddCleanup(new([16]byte), func(end func()) { end() }, asUsual)
	time.AfterFunc(heldOff, asUsual)
}
