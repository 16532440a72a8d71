// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/schedplugin/config"
	"github.com/dray-project/dray/schedplugin/internal/metrics"
	"github.com/dray-project/dray/schedplugin/internal/refusal"
)

// reasonOf returns the reason why a node is refused. It is computed once for nodes with equal answers.
func (p *Plugin) reasonOf(ctx context.Context, c *cycle, v *variant, node *corev1.Node, found allocator.Feasibility, answer string, err error) string {
	name := c.countedName(node)
	switch answer {
	case metrics.Unsatisfiable:
		return p.reasonAgainst(ctx, c, v, node, found)
	case metrics.Undecided:
		return c.refusals.Add(v, refusal.Undecided, refusal.Undecided, name)
	case metrics.Timeout:
		return c.refusals.Add(v, refusal.Timeout, refusal.Timeout, name)
	case metrics.Cancelled: // the scheduler cancelled the search
		return fmt.Sprintf("asked by caller to stop allocating devices: %v", context.Cause(ctx))
	}
	return c.refusals.Add(v, allocator.General(err), refusal.Error, name)
}

// reasonAgainst returns what the node lacks. If only devices that are set aside for nominated pods are
// missing, it says so.
func (p *Plugin) reasonAgainst(ctx context.Context, c *cycle, v *variant, node *corev1.Node, found allocator.Feasibility) string {
	name := c.countedName(node)
	problem, usage, alike := v.problemFor(c), c.usage(), found.Alike()
	if c.preemption.HasSetAside() && !c.preemption.Removed() {
		plain, err := v.problem.Feasible(p.withTimeout(ctx, c), c.view.State, node)
		switch {
		case err != nil:
		case plain.Verdict() == allocator.Satisfiable:
			return c.refusals.Add(v, refusal.SetAside, refusal.SetAside, name)
		case plain.Verdict() == allocator.NotSatisfiable:
			problem, usage, alike = v.problem, c.view.State, plain.Alike()
		}
	}
	if reason, known := c.refusals.AddKnown(v, alike, name); known {
		return reason
	}
	outcome, err := problem.Allocate(ctx, usage, node)
	unsatisfiable, ok := outcome.(*allocator.Unsatisfiable)
	if err != nil || !ok {
		return c.refusals.Add(v, refusal.Unexplained, refusal.Unexplained, name)
	}
	return c.refusals.AddAnswer(v, unsatisfiable, alike, p.reasons.Of(v, unsatisfiable), name)
}

// countedName is the name under which a refused node is counted. It is empty in a what-if without some pods,
// which does not count.
func (c *cycle) countedName(node *corev1.Node) string {
	if c.preemption.Removed() {
		return ""
	}
	return node.Name
}

// explain records an Event about a pod or PodGroup that sums up why no node has the devices. For a group it
// adds how many pods get devices together, if that is known.
func (p *Plugin) explain(ctx context.Context, about runtime.Object, refusals []*refusal.Refusal, outlook string) {
	recorder := p.handle.EventRecorder()
	if recorder == nil || p.args.Explain == config.ExplainReasons || len(refusals) == 0 {
		return
	}
	logger := klog.FromContext(ctx)
	to, err := reference.GetReference(scheme.Scheme, about)
	if err != nil {
		logger.Error(err, "An Event has nothing to refer to")
		return
	}
	who := to.Kind + " " + to.Namespace + "/" + to.Name
	if outlook != "" {
		who += " (" + outlook + ")"
	}
	p.eventLimiter.Record(recorder.WithLogger(logger), who, *to, refusals)
}

// A search that was given up is repeated after a pause. Each time, it has four times the budget and twice the
// time, up to a limit.
const (
	firstRetry     = time.Second
	lastRetry      = time.Minute
	maxBudgetLevel = 3
)

// budgetLevel is how many times the limits of a search were raised for a pod.
func (p *Plugin) budgetLevel(pod types.UID) int { return min(p.endings.Undecided(pod), maxBudgetLevel) }

// retry activates a pod after a pause, without any event: a search that was given up does not say that there
// are no devices.
func (p *Plugin) retry(ctx context.Context, pod *corev1.Pod, undecided int) {
	pause := lastRetry
	if shift := undecided - 1; shift < 6 {
		pause = min(firstRetry<<shift, lastRetry)
	}
	logger := klog.FromContext(ctx)
	time.AfterFunc(pause, func() {
		if p.stopped() == nil {
			p.activate(logger, pod)
		}
	})
}

// recordAttempt records why an attempt found no node.
func (p *Plugin) recordAttempt(ctx context.Context, c *cycle, pod *corev1.Pod, refusals []*refusal.Refusal) {
	if c.undecided.Load() {
		metrics.LeftUndecided()
	}
	last := p.endings.End(pod, refusal.Attempt{
		Refusals: refusals, GaveUp: c.undecided.Load() || c.undecidedWhatIf.Load(), LowerInFlight: c.lowerInFlight.Load(),
	})
	if last.Undecided > 0 {
		p.retry(ctx, pod, last.Undecided)
	}
}
