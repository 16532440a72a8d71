// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/dray-project/dray/schedplugin/config"
	"github.com/dray-project/dray/schedplugin/internal/scoring"
)

// Score returns the weighted mean of the criteria in DrayArgs.Scoring.
func (p *Plugin) Score(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	if p.args.Scoring == (config.ScoringArgs{}) {
		return 0, nil
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod))
	c, err := cycleOf(state)
	if err != nil {
		return 0, failed(logger, err)
	}
	feasible := c.feasible(nodeInfo.Node().Name)
	if c.hasNoClaims() || feasible == nil {
		return 0, nil
	}
	score, err := p.score(ctx, c, feasible)
	if err != nil {
		return 0, failed(logger, err)
	}
	return score, nil
}

func (p *Plugin) score(ctx context.Context, c *cycle, feasible *feasibleNode) (int64, error) {
	w := p.args.Scoring
	if w.OnlyLists() && !scoring.Prioritizes(c.claims) {
		return 0, nil
	}
	assignment, err := p.assign(ctx, c, feasible)
	if err != nil {
		return 0, err
	}
	earned, most := scoring.Lists(c.claims, feasible.variant.claims, assignment)
	if w.OnlyLists() {
		return earned, nil
	}
	var o scoring.NodeDevices
	if assignment != nil {
		if o, err = scoring.NodeDevicesAfter(c.view, feasible.node, feasible.variant.claims, assignment); err != nil {
			return 0, err
		}
	}
	sum := w.PrioritizedLists*scoring.Share(earned, most) + w.Packing*o.Usage() + w.Spreading*(scoring.PerMille-o.Usage()) + w.LeastWaste*o.Thrift()
	return sum / w.Sum(), nil
}

// ScoreExtensions implements ScorePlugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore scales scores to the range that the framework expects.
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	return helper.DefaultNormalizeScore(fwk.MaxScore, false, scores)
}
