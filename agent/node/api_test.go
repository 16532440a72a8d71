// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	v1 "k8s.io/client-go/informers/core/v1"
	coordclientset "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	lister "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/dray-project/dray/agent/node"
)

// What follows compiles only as long as names and signatures are those of virtual-kubelet's
// package. The types are written out, so that a change of ours does not change both sides.

const (
	_ float64       = node.DefaultRenewIntervalFraction
	_ int32         = node.DefaultLeaseDuration
	_ time.Duration = node.DefaultPingInterval
	_ time.Duration = node.DefaultStatusUpdateInterval
)

var (
	_ error = node.ErrConflictingLeaseControllerConfiguration

	_ func(context.Context, error) error             = node.ErrorHandler(nil)
	_ func(*node.NodeController) error               = node.NodeControllerOpt(nil)
	_ func(context.Context, *corev1.Pod) bool        = node.PodEventFilterFunc(nil)
	_ func() *node.NaiveNodeProviderV2               = node.NewNaiveNodeProvider
	_ func(time.Duration) node.NodeControllerOpt     = node.WithNodePingInterval
	_ func(time.Duration) node.NodeControllerOpt     = node.WithNodePingTimeout
	_ func(time.Duration) node.NodeControllerOpt     = node.WithNodeStatusUpdateInterval
	_ func(node.ErrorHandler) node.NodeControllerOpt = node.WithNodeStatusUpdateErrorHandler

	_ func(coordclientset.LeaseInterface, int32) node.NodeControllerOpt                = node.WithNodeEnableLeaseV1
	_ func(coordclientset.LeaseInterface, int32, time.Duration) node.NodeControllerOpt = node.WithNodeEnableLeaseV1WithRenewInterval

	_ func(node.NodeProvider, *corev1.Node, corev1client.NodeInterface, ...node.NodeControllerOpt) (*node.NodeController, error) = node.NewNodeController

	_ func(node.PodControllerConfig) (*node.PodController, error) = node.NewPodController

	// The interfaces, as somebody else may have declared them.
	_ node.NodeProvider = interface {
		Ping(context.Context) error
		NotifyNodeStatus(ctx context.Context, cb func(*corev1.Node))
	}(nil)
	_ node.NodeProvider = node.NaiveNodeProvider{}
	_ node.NodeProvider = (*node.NaiveNodeProviderV2)(nil)
	_ node.PodNotifier  = interface {
		NotifyPods(context.Context, func(*corev1.Pod))
	}(nil)
	_ node.PodLifecycleHandler = interface {
		CreatePod(ctx context.Context, pod *corev1.Pod) error
		UpdatePod(ctx context.Context, pod *corev1.Pod) error
		DeletePod(ctx context.Context, pod *corev1.Pod) error
		GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
		GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error)
		GetPods(context.Context) ([]*corev1.Pod, error)
	}(nil)

	// And no method is missing in ours: programs call them, too.
	_ interface {
		Ping(context.Context) error
		NotifyNodeStatus(ctx context.Context, cb func(*corev1.Node))
	} = node.NodeProvider(nil)
	_ interface {
		NotifyPods(context.Context, func(*corev1.Pod))
	} = node.PodNotifier(nil)
	_ interface {
		CreatePod(ctx context.Context, pod *corev1.Pod) error
		UpdatePod(ctx context.Context, pod *corev1.Pod) error
		DeletePod(ctx context.Context, pod *corev1.Pod) error
		GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
		GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error)
		GetPods(context.Context) ([]*corev1.Pod, error)
	} = node.PodLifecycleHandler(nil)

	_ interface {
		Done() <-chan struct{}
		Err() error
		Ready() <-chan struct{}
		Run(ctx context.Context) (retErr error)
	} = (*node.NodeController)(nil)

	_ interface {
		UpdateStatus(ctx context.Context, node *corev1.Node) error
	} = (*node.NaiveNodeProviderV2)(nil)

	_ interface {
		CheckAndUpdatePod(ctx context.Context, key string, obj interface{}, newPod *corev1.Pod)
		DeletePod(key string)
		DeletePodsFromKubernetesEnqueue(ctx context.Context, key string)
		DeletePodsFromKubernetesForget(ctx context.Context, key string)
		Done() <-chan struct{}
		Err() error
		LoadPod(key string) (any, bool)
		Ready() <-chan struct{}
		Run(ctx context.Context, podSyncWorkers int) (retErr error)
		StorePod(key string, pod *corev1.Pod)
		SyncPodStatusFromProviderEnqueue(ctx context.Context, key string)
		SyncPodsFromKubernetesEnqueue(ctx context.Context, key string)

		SyncPodsFromKubernetesQueueLen() int
		SyncPodsFromKubernetesQueueUnprocessedLen() int
		SyncPodsFromKubernetesQueueItemsBeingProcessedLen() int
		DeletePodsFromKubernetesQueueLen() int
		DeletePodsFromKubernetesQueueUnprocessedLen() int
		DeletePodsFromKubernetesQueueItemsBeingProcessedLen() int
		SyncPodStatusFromProviderQueueLen() int
		SyncPodStatusFromProviderQueueUnprocessedLen() int
		SyncPodStatusFromProviderQueueItemsBeingProcessedLen() int
	} = (*node.PodController)(nil)

	_ = node.PodControllerConfig{
		PodClient:                                corev1client.PodsGetter(nil),
		PodLister:                                lister.PodLister(nil),
		PodInformer:                              v1.PodInformer(nil),
		EventRecorder:                            record.EventRecorder(nil),
		Provider:                                 node.PodLifecycleHandler(nil),
		SyncPodsFromKubernetesRateLimiter:        workqueue.RateLimiter(nil),
		SyncPodsFromKubernetesShouldRetryFunc:    retry,
		DeletePodsFromKubernetesRateLimiter:      workqueue.RateLimiter(nil),
		DeletePodsFromKubernetesShouldRetryFunc:  retry,
		SyncPodStatusFromProviderRateLimiter:     workqueue.RateLimiter(nil),
		SyncPodStatusFromProviderShouldRetryFunc: retry,
		PodEventFilterFunc:                       node.PodEventFilterFunc(nil),
		ConfigMapInformer:                        v1.ConfigMapInformer(nil),
		SecretInformer:                           v1.SecretInformer(nil),
		ServiceInformer:                          v1.ServiceInformer(nil),
		SkipDownwardAPIResolution:                false,
	}

	_ node.ShouldRetryFunc                                                         = retry
	_ func(context.Context, string, int, time.Time, error) (*time.Duration, error) = node.DefaultRetryFunc
	_ workqueue.RateLimiter                                                        = workqueue.TypedRateLimiter[any](nil)
	_ *int                                                                         = &node.MaxRetries
)

// retry has the type that virtual-kubelet keeps in an internal package: programs cannot
// name it, and assign functions.
func retry(_ context.Context, _ string, _ int, _ time.Time, err error) (*time.Duration, error) {
	return nil, err
}
