// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"time"

	"github.com/dray-project/dray/agent/node/queue"
)

// ShouldRetryFunc decides what happens to a key whose handling failed.
type ShouldRetryFunc = queue.ShouldRetryFunc

// MaxRetries is how often DefaultRetryFunc has a key handled again.
var MaxRetries = 20

// DefaultRetryFunc gives up after MaxRetries failures, and leaves the delay to the rate limiter. It
// is a variable, as in virtual-kubelet. Nothing here reads it: a PodController without a retry
// function does not give up.
var DefaultRetryFunc = giveUpAfterMaxRetries

func giveUpAfterMaxRetries(_ context.Context, key string, timesTried int, _ time.Time, err error) (*time.Duration, error) {
	if timesTried < MaxRetries {
		return nil, nil
	}
	return nil, fmt.Errorf("maximum retries (%d) reached: %s: %w", MaxRetries, key, err)
}

// Lengths of the three queues. Keys that a rate limiter delays count as waiting. A key that is
// queued again while it is handled counts twice.

// SyncPodsFromKubernetesQueueLen returns the number of pods that wait to be reconciled with
// Kubernetes, or are being reconciled.
func (pc *PodController) SyncPodsFromKubernetesQueueLen() int { return pc.fromKubernetes.Len() }

// SyncPodsFromKubernetesQueueUnprocessedLen returns how many pods wait to be reconciled.
func (pc *PodController) SyncPodsFromKubernetesQueueUnprocessedLen() int {
	return pc.fromKubernetes.UnprocessedLen()
}

// SyncPodsFromKubernetesQueueItemsBeingProcessedLen returns how many pods are being reconciled.
func (pc *PodController) SyncPodsFromKubernetesQueueItemsBeingProcessedLen() int {
	return pc.fromKubernetes.ItemsBeingProcessedLen()
}

// DeletePodsFromKubernetesQueueLen returns the number of pods that wait to be deleted from
// Kubernetes, or are being deleted.
func (pc *PodController) DeletePodsFromKubernetesQueueLen() int { return pc.deletions.Len() }

// DeletePodsFromKubernetesQueueUnprocessedLen returns how many pods wait to be deleted.
func (pc *PodController) DeletePodsFromKubernetesQueueUnprocessedLen() int {
	return pc.deletions.UnprocessedLen()
}

// DeletePodsFromKubernetesQueueItemsBeingProcessedLen returns how many pods are being deleted.
func (pc *PodController) DeletePodsFromKubernetesQueueItemsBeingProcessedLen() int {
	return pc.deletions.ItemsBeingProcessedLen()
}

// SyncPodStatusFromProviderQueueLen returns the number of statuses that wait to be written, or are
// being written.
func (pc *PodController) SyncPodStatusFromProviderQueueLen() int { return pc.fromProvider.Len() }

// SyncPodStatusFromProviderQueueUnprocessedLen returns how many statuses wait to be written.
func (pc *PodController) SyncPodStatusFromProviderQueueUnprocessedLen() int {
	return pc.fromProvider.UnprocessedLen()
}

// SyncPodStatusFromProviderQueueItemsBeingProcessedLen returns how many statuses are being written.
func (pc *PodController) SyncPodStatusFromProviderQueueItemsBeingProcessedLen() int {
	return pc.fromProvider.ItemsBeingProcessedLen()
}
