// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/node/errdefs"
)

// pollInterval is the interval at which the status of pods is polled from a provider without
// NotifyPods.
const pollInterval = 5 * time.Second

// poll polls the status of each pod from the provider, until ctx ends.
func (pc *PodController) poll(ctx context.Context) {
	for sleep(ctx, pollInterval) {
		pc.known.Range(func(key, _ any) bool {
			err := guard("GetPodStatus", func() error { return pc.ask(ctx, key.(string)) })
			if panicked := panicOf(err); panicked != nil {
				pc.stop(panicked)
			} else if err != nil {
				klog.FromContext(ctx).Error(err, "Provider does not tell the status", "pod", key)
			}
			return ctx.Err() == nil
		})
	}
}

// ask gets the status of one pod. If the pod was running and the provider no longer has it, ask
// queues it as if it had changed in Kubernetes.
func (pc *PodController) ask(ctx context.Context, key string) error {
	pod, err := pc.lookUp(ctx, key)
	if err != nil || pod == nil || pod.DeletionTimestamp != nil || hasEnded(&pod.Status) {
		return err
	}
	status, err := pc.provider.GetPodStatus(ctx, pod.Namespace, pod.Name)
	switch {
	case err != nil && !errdefs.IsNotFound(err):
		return err
	case err == nil && status != nil:
		pc.notify(ctx, &corev1.Pod{ObjectMeta: pod.ObjectMeta, Status: *status})
	case pod.Status.Phase == corev1.PodRunning:
		pc.SyncPodsFromKubernetesEnqueue(ctx, key)
	}
	return nil
}
