// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"testing"

	"github.com/dray-project/dray/agent/internal/fakecluster"
)

// TestAwaitEnds with its context, and says what it waited for.
func TestAwaitEnds(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"))
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- n.preparer.Await(ctx, pod("a", "one")) }()
	<-n.recorder.Events // one attempt was made
	cancel(errBoom)
	if err := <-done; !errors.Is(err, errBoom) {
		t.Errorf("error %v", err)
	}
}

// TestAwaitRelease has a driver that does not unprepare at first, while other attempts are made.
func TestAwaitRelease(t *testing.T) {
	n := newNode(t, claim("own", []string{gpus}, "a"), claim("shared", []string{gpus}, "a", "b"))
	gpu := n.driver(t, gpus)
	a, b := pod("a", "own", "shared"), pod("b", "shared")
	n.prepare(t, a)
	n.prepare(t, b)
	gpu.Set(func() { gpu.Refuse["unprepare own"] = "busy" })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.preparer.AwaitRelease(ctx, a.UID) }()
	// The first attempt notes that the pod is gone; the others, and those in the background, are
	// about what is left.
	calls := 0
	fakecluster.Eventually(t, "several attempts", func() bool { calls += len(gpu.Taken()); return calls >= 7 })
	select {
	case err := <-done:
		t.Fatalf("released, although the driver holds %q: %v", gpu.Holds(), err)
	default:
	}
	gpu.Set(func() { delete(gpu.Refuse, "unprepare own") })
	if err := <-done; err != nil {
		t.Error(err)
	}
	same(t, "prepared", gpu.Holds(), "shared")
	cancel()
	if err := n.preparer.AwaitRelease(ctx, a.UID); err != nil {
		t.Errorf("nothing is left to do: %v", err)
	}
	n.release(t, b)
	same(t, "prepared at the end", gpu.Holds())
}
