// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	"github.com/dray-project/dray/schedplugin/internal/foreign"
	"github.com/dray-project/dray/schedplugin/internal/metrics"
)

// errInTreePlugin keeps a scheduler from starting in which two plugins could allocate the same device.
var errInTreePlugin = errors.New("plugin " + dynamicresources.Name + " is enabled, too: neither plugin sees which devices the other one has in flight. Disable it in all profiles, under multiPoint and at each single extension point, or use it in all profiles")

// watchForeign returns a watch for allocations by other schedulers, nil if claims have no informer.
func (p *Plugin) watchForeign(ctx context.Context) (*foreign.Watch, error) {
	if !hasInformers(p.dra) {
		return nil, nil
	}
	return foreign.Of(ctx, p.dra, p.handle.SharedInformerFactory().Resource().V1().ResourceClaims().Informer(), p.recordForeign)
}

// recordForeign reports that another scheduler allocated devices of a driver whose devices this one allocates, too.
func (p *Plugin) recordForeign(claim *resourceapi.ResourceClaim, driver string, tell bool) {
	metrics.AllocatedByOther()
	if !tell {
		return
	}
	klog.InfoS("Another scheduler allocates devices of a driver whose devices this one allocates", "resourceclaim", klog.KObj(claim), "driver", driver)
	p.event(context.Background(), claim, corev1.EventTypeWarning, "AllocatedByAnotherScheduler",
		"somebody else allocated devices of driver %s, which %s allocates, too: a device can get into two claims", driver, p.handle.ProfileName())
}
