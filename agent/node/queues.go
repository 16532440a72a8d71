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

// DefaultRetryFunc gives up after MaxRetries, and leaves the time between attempts to the queue's rate
// limiter. It is virtual-kubelet's default, and a variable as there. Nothing here reads it: a PodController
// without a function of its own does not give up.
var DefaultRetryFunc = giveUpAfterMaxRetries

func giveUpAfterMaxRetries(_ context.Context, key string, timesTried int, _ time.Time, err error) (*time.Duration, error) {
	if timesTried < MaxRetries {
		return nil, nil
	}
	return nil, fmt.Errorf("maximum retries (%d) reached: %s: %w", MaxRetries, key, err)
}

// The lengths of the three queues, as they are at the moment: keys that wait, with those that a rate limiter
// holds back, keys that are being handled, and both together. A key that is queued again while it is
// handled counts twice.

// SyncPodsFromKubernetesQueueLen is how many pods wait to be brought in line with Kubernetes, or are.
func (pc *PodController) SyncPodsFromKubernetesQueueLen() int { return pc.fromKubernetes.Len() }

// SyncPodsFromKubernetesQueueUnprocessedLen is how many of them wait.
func (pc *PodController) SyncPodsFromKubernetesQueueUnprocessedLen() int {
	return pc.fromKubernetes.UnprocessedLen()
}

// SyncPodsFromKubernetesQueueItemsBeingProcessedLen is how many of them are being handled.
func (pc *PodController) SyncPodsFromKubernetesQueueItemsBeingProcessedLen() int {
	return pc.fromKubernetes.ItemsBeingProcessedLen()
}

// DeletePodsFromKubernetesQueueLen is how many pods wait to be deleted from Kubernetes, or are.
func (pc *PodController) DeletePodsFromKubernetesQueueLen() int { return pc.deletions.Len() }

// DeletePodsFromKubernetesQueueUnprocessedLen is how many of them wait.
func (pc *PodController) DeletePodsFromKubernetesQueueUnprocessedLen() int {
	return pc.deletions.UnprocessedLen()
}

// DeletePodsFromKubernetesQueueItemsBeingProcessedLen is how many of them are being handled.
func (pc *PodController) DeletePodsFromKubernetesQueueItemsBeingProcessedLen() int {
	return pc.deletions.ItemsBeingProcessedLen()
}

// SyncPodStatusFromProviderQueueLen is how many statuses wait to be written, or are.
func (pc *PodController) SyncPodStatusFromProviderQueueLen() int { return pc.fromProvider.Len() }

// SyncPodStatusFromProviderQueueUnprocessedLen is how many of them wait.
func (pc *PodController) SyncPodStatusFromProviderQueueUnprocessedLen() int {
	return pc.fromProvider.UnprocessedLen()
}

// SyncPodStatusFromProviderQueueItemsBeingProcessedLen is how many of them are being handled.
func (pc *PodController) SyncPodStatusFromProviderQueueItemsBeingProcessedLen() int {
	return pc.fromProvider.ItemsBeingProcessedLen()
}
