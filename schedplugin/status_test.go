// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/dray-project/dray/schedplugin/config"
)

func TestTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Plugin{args: &config.DrayArgs{FilterTimeout: &metav1.Duration{Duration: time.Millisecond}}}
		cause := errors.New("cause")
		parent, cancel := context.WithCancelCause(t.Context())
		ctx := p.withTimeout(parent, newCycle())
		for range 2 {
			if err := ctx.Err(); err != nil {
				t.Fatalf("at once: %v", err)
			}
		}
		time.Sleep(2 * time.Millisecond)
		if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the limit: %v", err)
		}
		patient := newCycle()
		patient.budgetLevel = 2
		ctx = p.withTimeout(parent, patient)
		_, _ = ctx.Err(), ctx.Err()
		time.Sleep(3 * time.Millisecond)
		if err := ctx.Err(); err != nil {
			t.Errorf("a repeated attempt has no more time: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the limit of a repeated attempt: %v", err)
		}
		cancel(cause)
		if err := ctx.Err(); !errors.Is(err, context.Canceled) || !errors.Is(context.Cause(ctx), cause) {
			t.Errorf("after the parent was cancelled: %v because of %v", err, context.Cause(ctx))
		}
		if p.args.FilterTimeout.Duration = 0; p.withTimeout(parent, newCycle()) != parent {
			t.Error("no limit is a limit")
		}
	})
}

// A node for which the time does not suffice is refused for that reason, and nothing is preempted.
func TestFilterTakesTooLong(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 4), gpuClaim("wanted", 1)}})
	w.plugin.args.FilterTimeout.Duration = time.Nanosecond
	a := w.attempt(podWith("pod", "wanted"))
	expect(t, a.preFilter(), fwk.Success, "")
	expect(t, a.filter(0), fwk.UnschedulableAndUnresolvable, "the search for devices took too long")
	_, status := w.plugin.PostFilter(w.ctx, a.state, a.pod, nil)
	expect(t, status, fwk.UnschedulableAndUnresolvable, undecidedReason)
}
