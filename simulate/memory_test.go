// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"os"
	"testing"
)

var defaultMemory = usualMemory

// TestMain has all tests run with another memory than the usual one with DRAY_MEMORY=off, and with one that forgets all the
// time with DRAY_MEMORY=small.
func TestMain(m *testing.M) {
	switch memory := os.Getenv("DRAY_MEMORY"); memory {
	case "":
	case "off":
		usualMemory = MemoryOptions{Off: true}
	case "small":
		usualMemory = MemoryOptions{Questions: 2, Kinds: 2, Nodes: 2, States: 2, Answers: 1}
	default:
		fmt.Fprintf(os.Stderr, "DRAY_MEMORY is off, small or empty, not %s\n", memory)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// RunUsual has a test run with the usual memory: it is about what that saves, or about how far a budget leads with it.
func RunUsual(t *testing.T) {
	t.Helper()
	before := usualMemory
	usualMemory = defaultMemory
	t.Cleanup(func() { usualMemory = before })
}
