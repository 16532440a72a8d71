// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	v1 "k8s.io/client-go/informers/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	lister "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/agent/node/queue"
)

// PodEventFilterFunc tells whether a pod belongs to the controller.
type PodEventFilterFunc func(context.Context, *corev1.Pod) bool

// PodControllerConfig configures a PodController.
type PodControllerConfig struct {
	// PodClient writes statuses, and deletes pods that have ended. It is required.
	PodClient corev1client.PodsGetter

	// PodLister reads pods from a cache. The default is the lister of PodInformer.
	PodLister lister.PodLister

	// PodInformer delivers events of pods. If it is nil, PodLister is required, and the caller
	// delivers events: see [PodController.StorePod]. The caller starts the informer.
	PodInformer v1.PodInformer

	// EventRecorder records Events about what the provider did with pods. It is required.
	EventRecorder record.EventRecorder

	// Provider runs the pods. It is required.
	Provider PodLifecycleHandler

	// ConfigMapInformer, SecretInformer and ServiceInformer resolve references in containers'
	// environment variables. Set all of them or none; the caller starts them. With them, the
	// provider gets pods whose variables have literal values only. These include variables from the
	// downward API and those of Services. Without them, the provider gets pods unchanged.
	ConfigMapInformer v1.ConfigMapInformer
	SecretInformer    v1.SecretInformer
	ServiceInformer   v1.ServiceInformer
	// SkipDownwardAPIResolution makes the provider get pods unchanged even if the informers are
	// set.
	SkipDownwardAPIResolution bool

	// Rate limiters of the three queues: pods that changed in Kubernetes, pods whose termination
	// grace period is over, and pods whose status the provider changed. The default is a backoff
	// per key that doubles from 5 ms to 1000 s.
	SyncPodsFromKubernetesRateLimiter    workqueue.TypedRateLimiter[any]
	DeletePodsFromKubernetesRateLimiter  workqueue.TypedRateLimiter[any]
	SyncPodStatusFromProviderRateLimiter workqueue.TypedRateLimiter[any]

	// What to do with a key after a failure. By default it is always tried again.
	SyncPodsFromKubernetesShouldRetryFunc    queue.ShouldRetryFunc
	DeletePodsFromKubernetesShouldRetryFunc  queue.ShouldRetryFunc
	SyncPodStatusFromProviderShouldRetryFunc queue.ShouldRetryFunc

	// PodEventFilterFunc tells which pods belong to the controller. The default accepts all. That
	// suits an informer that is limited to the pods of one node.
	PodEventFilterFunc PodEventFilterFunc
}

// PodController reconciles the pods of a provider with those in Kubernetes. Its methods may be
// called concurrently.
type PodController struct {
	config   PodControllerConfig
	provider PodLifecycleHandler
	notifies bool         // the provider is a PodNotifier
	env      *environment // nil: the provider gets pods unchanged

	lifecycle

	// Keys are namespace/name; those of deletions are namespace/name/UID.
	fromKubernetes, deletions, fromProvider *queue.Queue

	known sync.Map // namespace/name to *knownPod

	stop context.CancelCauseFunc // set by Run, before there are workers
}

// NewPodController returns a controller that does nothing before Run. Errors are of the
// class InvalidInput, and name the field.
func NewPodController(cfg PodControllerConfig) (*PodController, error) {
	resolves := cfg.ConfigMapInformer != nil || cfg.SecretInformer != nil || cfg.ServiceInformer != nil
	for _, required := range []struct {
		missing bool
		field   string
	}{
		{cfg.PodClient == nil, "PodClient"},
		{cfg.EventRecorder == nil, "EventRecorder"},
		{cfg.Provider == nil, "Provider"},
		{cfg.PodInformer == nil && cfg.PodLister == nil, "PodInformer or PodLister"},
		{resolves && cfg.ConfigMapInformer == nil, "ConfigMapInformer"},
		{resolves && cfg.SecretInformer == nil, "SecretInformer"},
		{resolves && cfg.ServiceInformer == nil, "ServiceInformer"},
	} {
		if required.missing {
			return nil, errdefs.InvalidInputf("pod controller: %s is required", required.field)
		}
	}
	if cfg.PodLister == nil {
		cfg.PodLister = cfg.PodInformer.Lister()
	}
	if cfg.PodEventFilterFunc == nil {
		cfg.PodEventFilterFunc = func(context.Context, *corev1.Pod) bool { return true }
	}
	pc := &PodController{config: cfg, provider: cfg.Provider, lifecycle: newLifecycle()}
	_, pc.notifies = cfg.Provider.(PodNotifier)
	if resolves && !cfg.SkipDownwardAPIResolution {
		pc.env = &environment{cfg.ConfigMapInformer.Lister(), cfg.SecretInformer.Lister(), cfg.ServiceInformer.Lister(), cfg.EventRecorder}
	}
	pc.fromKubernetes = queue.New(cfg.SyncPodsFromKubernetesRateLimiter, "syncPodsFromKubernetes",
		pc.guarded(pc.syncFromKubernetes), cfg.SyncPodsFromKubernetesShouldRetryFunc)
	pc.deletions = queue.New(cfg.DeletePodsFromKubernetesRateLimiter, "deletePodsFromKubernetes",
		pc.guarded(pc.deleteFromKubernetes), cfg.DeletePodsFromKubernetesShouldRetryFunc)
	pc.fromProvider = queue.New(cfg.SyncPodStatusFromProviderRateLimiter, "syncPodStatusFromProvider",
		pc.guarded(pc.syncStatus), cfg.SyncPodStatusFromProviderShouldRetryFunc)
	return pc, nil
}

// guarded wraps the handler of a queue. If the provider panics in it, the controller ends.
func (pc *PodController) guarded(handle func(context.Context, string) error) func(context.Context, string) error {
	return func(ctx context.Context, key string) error {
		err := guard("the handling of "+key, func() error { return handle(ctx, key) })
		var panicked *panicError
		if errors.As(err, &panicked) {
			pc.stop(panicked)
			return nil
		}
		return err
	}
}

// Run processes the queues with podSyncWorkers workers each, until ctx ends. It then waits for the
// workers, and returns nil. It returns an error if the caches do not sync before ctx ends, if the
// provider panics, if podSyncWorkers is below 1, or if Run was called before.
//
// Run does not call the provider before the informer of pods has synced. It then deletes pods of
// the provider that do not exist in Kubernetes, before Ready. Without an informer, the lister must
// have all pods before Run is called.
func (pc *PodController) Run(ctx context.Context, podSyncWorkers int) (retErr error) {
	if !pc.start() {
		return errors.New("pod controller: Run was called before")
	}
	defer func() { pc.end(retErr) }()
	if podSyncWorkers < 1 {
		return fmt.Errorf("pod controller: %d workers: at least 1 is required", podSyncWorkers)
	}
	if err := pc.run(ctx, podSyncWorkers); err != nil {
		return fmt.Errorf("pod controller: %w", err)
	}
	return nil
}

func (pc *PodController) run(parent context.Context, workers int) error {
	ctx, stop := context.WithCancelCause(parent)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop(nil)
	pc.stop = stop
	forget, err := pc.watch(ctx)
	if err != nil {
		return err
	}
	defer forget()
	if err := pc.begin(ctx, workers); err != nil {
		return runError(parent, ctx, err)
	}
	for _, q := range []*queue.Queue{pc.fromKubernetes, pc.deletions, pc.fromProvider} {
		group.Go(func() {
			if err := q.Run(ctx, workers); err != nil {
				stop(err)
			}
		})
	}
	if !pc.notifies {
		group.Go(func() { pc.poll(ctx) })
	}
	pc.markReady()
	<-ctx.Done()
	return runError(parent, ctx, nil)
}

// begin registers for status updates of the provider, and deletes dangling pods.
func (pc *PodController) begin(ctx context.Context, workers int) error {
	if notifier, ok := pc.provider.(PodNotifier); ok {
		err := guard("NotifyPods", func() error {
			notifier.NotifyPods(ctx, func(pod *corev1.Pod) { pc.notify(ctx, pod) })
			return nil
		})
		if err != nil {
			return err
		}
	}
	return pc.deleteDangling(ctx, workers)
}

// watch adds event handlers to the informer, if there is one, and waits until informer and handlers
// have synced. The returned function removes the handlers, because the informer may outlive the
// controller.
func (pc *PodController) watch(ctx context.Context) (forget func(), err error) {
	if pc.config.PodInformer == nil {
		return func() {}, nil
	}
	informer := pc.config.PodInformer.Informer()
	registration, err := informer.AddEventHandler(pc.handlers(ctx))
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	forget = func() { _ = informer.RemoveEventHandler(registration) }
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced, registration.HasSynced) {
		forget()
		return nil, fmt.Errorf("pods were not listed: %w", context.Cause(ctx))
	}
	return forget, nil
}
