// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leakcheck fails the tests of a package that leave goroutines behind.
package leakcheck

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/goleak"
)

// patience is for goroutines that end by themselves, on a machine that has other things to
// do. goleak alone waits for half a second.
const patience = time.Minute

// Main runs m, which is a *testing.M or has one inside, and exits with what they returned, or with 1 if they
// passed and goroutines are left. It takes the place of goleak.VerifyTestMain.
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

// await returns what is left when the time is over.
func await(atMost time.Duration, options ...goleak.Option) error {
	for deadline := time.Now().Add(atMost); ; {
		err := goleak.Find(options...)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
