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

// PodEventFilterFunc tells whether a pod is the controller's.
type PodEventFilterFunc func(context.Context, *corev1.Pod) bool

// PodControllerConfig configures a PodController.
type PodControllerConfig struct {
	// PodClient writes statuses, and deletes pods that have ended. It is required.
	PodClient corev1client.PodsGetter

	// PodLister is where the controller looks pods up. nil stands for PodInformer's.
	PodLister lister.PodLister

	// PodInformer is where events come from. If it is nil, PodLister is required, and
	// events come from outside, see [PodController.StorePod]. It must be started by the caller.
	PodInformer v1.PodInformer

	// EventRecorder records what providers do with pods. It is required.
	EventRecorder record.EventRecorder

	// Provider runs the pods. It is required.
	Provider PodLifecycleHandler

	// ConfigMapInformer, SecretInformer and ServiceInformer are where the controller finds what variables of
	// containers refer to. All or none are required, and they must be started by the caller. With them,
	// providers get pods whose variables have values only, those of fields of the pod and of Services
	// included; without, providers get pods as they are.
	ConfigMapInformer v1.ConfigMapInformer
	SecretInformer    v1.SecretInformer
	ServiceInformer   v1.ServiceInformer
	// SkipDownwardAPIResolution has providers get pods as they are in spite of the informers.
	SkipDownwardAPIResolution bool

	// When keys of the three queues are handled: pods that changed in Kubernetes, pods whose
	// time to end is over, and pods whose status the provider changed. nil stands for a
	// pause of 5 ms that doubles with each failure, up to 1000 s.
	SyncPodsFromKubernetesRateLimiter    workqueue.TypedRateLimiter[any]
	DeletePodsFromKubernetesRateLimiter  workqueue.TypedRateLimiter[any]
	SyncPodStatusFromProviderRateLimiter workqueue.TypedRateLimiter[any]

	// What happens after a failure. nil stands for another attempt, each time.
	SyncPodsFromKubernetesShouldRetryFunc    queue.ShouldRetryFunc
	DeletePodsFromKubernetesShouldRetryFunc  queue.ShouldRetryFunc
	SyncPodStatusFromProviderShouldRetryFunc queue.ShouldRetryFunc

	// PodEventFilterFunc tells which pods are the controller's. nil stands for all, which
	// is right for an informer that sees the pods of one node only.
	PodEventFilterFunc PodEventFilterFunc
}

// PodController brings the pods of a provider in line with those in Kubernetes. Its
// methods may be called concurrently.
type PodController struct {
	config   PodControllerConfig
	provider PodLifecycleHandler
	notifies bool         // the provider is a PodNotifier
	env      *environment // nil: providers get pods as they are

	lifecycle

	// keys: namespace/name; of deletions: namespace/name/UID
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

// guarded ends the controller if a provider panics while a key is handled.
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

// Run handles pods with so many workers per queue, until ctx ends, which is no error. Then
// it waits for the workers to finish what they do. It is an error if the caches
// are not synced before ctx ends, if the provider panics, if there is no worker, and if Run
// was called before.
//
// It waits for the informer of pods first. Until it has seen all pods, the provider is not called.
// Pods of the provider that Kubernetes does not know are then deleted, before Ready.
// Without an informer, all pods must be in the lister before Run is called.
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
		return ended(parent, ctx, err)
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
	pc.isReady()
	<-ctx.Done()
	return ended(parent, ctx, nil)
}

// begin calls the provider for the first time.
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

// watch adds handlers to the informer, if there is one, and waits until it and they have
// seen all pods. The function that it returns removes them, because the informer
// may outlive the controller.
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
