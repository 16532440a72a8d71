// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/dray/args"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/test/utils/ktesting"

	"github.com/dray-project/dray/schedplugin"
)

var withDray = os.Getenv("CONFORMANCE_WITH_DRAY") != ""

// underTest is what the tests call of a plugin.
type underTest interface {
	fwk.PreEnqueuePlugin
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.PostFilterPlugin
	fwk.PodGroupPostFilterPlugin
	fwk.ScorePlugin
	fwk.ScoreExtensions
	fwk.ReservePlugin
	fwk.PreBindPlugin
	isSchedulableAfterClaimChange(logger klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error)
	isSchedulableAfterTargetPodUpdate(logger klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error)
}

// newUnderTest makes one of the two plugins.
func newUnderTest(ctx context.Context, inTree *config.DynamicResourcesArgs, handle fwk.Handle, features feature.Features) (underTest, error) {
	if !withDray {
		plugin, err := New(ctx, inTree, handle, features)
		if err != nil {
			return nil, err
		}
		return plugin.(*DynamicResources), nil
	}
	unknown, err := args.Of(inTree)
	if err != nil {
		return nil, err
	}
	plugin, err := schedplugin.NewWithFeatures(ctx, unknown, handle, features)
	return dray{plugin}, err
}

type dray struct{ *schedplugin.Plugin }

// isSchedulableAfterClaimChange asks the hint that the scheduling queue asks.
func (d dray) isSchedulableAfterClaimChange(logger klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	return d.hint(fwk.ResourceClaim, logger, pod, oldObj, newObj)
}

func (d dray) isSchedulableAfterTargetPodUpdate(logger klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	return d.hint(fwk.TargetPod, logger, pod, oldObj, newObj)
}

func (d dray) hint(resource fwk.EventResource, logger klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	events, err := d.EventsToRegister(context.Background())
	if err != nil {
		return fwk.QueueSkip, err
	}
	for _, event := range events {
		if event.Event.Resource == resource {
			return event.QueueingHintFn(logger, pod, oldObj, newObj)
		}
	}
	return fwk.QueueSkip, nil
}

// sameRefusal compares a status with the one that a test expects: the text, as the test does,
// and where that is another one, the code.
func sameRefusal(tCtx ktesting.TContext, expected, actual *fwk.Status) {
	tCtx.Helper()
	want, got := expected.AsError().Error(), actual.AsError().Error()
	switch {
	case strings.Contains(got, want):
	case withDray && expected.Code() == actual.Code():
		tCtx.Logf("CONFORMANCE in other words: %q, expected %q", got, want)
	default:
		tCtx.Errorf("%v: %q, expected %v: %q", actual.Code(), got, expected.Code(), want)
	}
}
