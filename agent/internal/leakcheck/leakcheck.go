// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leakcheck fails the tests of a package if goroutines are left.
package leakcheck

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end on a busy machine. goleak alone waits for half a
// second.
const patience = time.Minute

// Main runs m, which is or contains a *testing.M, and exits with its result. If the tests passed
// and goroutines are left, it exits with 1. It replaces goleak.VerifyTestMain.
func Main(m interface{ Run() int }, options ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := await(patience, options...); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// await waits for goroutines to end, and returns an error about those that are left.
func await(atMost time.Duration, options ...goleak.Option) error {
	for deadline := time.Now().Add(atMost); ; {
		err := goleak.Find(options...)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
