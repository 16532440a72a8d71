// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

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

// strange is what somebody else left in the state of a cycle.
type strange struct{}

func (strange) Clone() fwk.StateData { return strange{} }

// What somebody else left under the plugin's key is an error for whoever reads it, and no panic.
func TestStrangeState(t *testing.T) {
	w := newWorld(t, setting{objects: []runtime.Object{node("a"), gpuClass(), gpus("a", 4), gpuClaim("wanted", 1)}, args: "scoring: {leastWaste: 1}"})
	a := w.attempt(podWith("p", "wanted"))
	expect(t, a.preFilter(), fwk.Success, "")
	a.state.Write(stateKey, strange{})
	info := w.nodes[0]
	other, err := framework.NewPodInfo(podWith("other"))
	if err != nil {
		t.Fatal(err)
	}
	score, scored := w.plugin.Score(w.ctx, a.state, a.pod, info)
	_, flight := w.plugin.PreBindPreFlight(w.ctx, a.state, a.pod, "a")
	_, post := w.plugin.PostFilter(w.ctx, a.state, a.pod, framework.NewDefaultNodeToStatus())
	for point, status := range map[string]*fwk.Status{
		"Filter": w.plugin.Filter(w.ctx, a.state, a.pod, info), "Score": scored, "Reserve": w.plugin.Reserve(w.ctx, a.state, a.pod, "a"), "PreBindPreFlight": flight,
		"PreBind": w.plugin.PreBind(w.ctx, a.state, a.pod, "a"), "PostFilter": post, "AddPod": w.plugin.AddPod(w.ctx, a.state, a.pod, other, info), "RemovePod": w.plugin.RemovePod(w.ctx, a.state, a.pod, other, info),
	} {
		if status.Code() != fwk.Error || !strings.Contains(status.Message(), "state of the scheduling cycle is schedplugin.strange") {
			t.Errorf("%s: %v", point, status)
		}
	}
	if score != 0 {
		t.Errorf("score %d beside an error", score)
	}
	w.plugin.Unreserve(w.ctx, a.state, a.pod, "a")
}
