package node

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	v1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// byNode is the index of pods by the name of their node.
const byNode = "dray.node.podfeed.spec.nodeName"

// PodFeed hands the events of one informer to the pod controllers of many nodes, each event
// to one controller. The controllers have the informer's lister, a filter for the pods
// of their node, and no informer. Methods may be called concurrently.
type PodFeed struct {
	ctx          context.Context
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration

	mu          sync.RWMutex
	controllers map[string]*PodController
}

// NewPodFeed begins to feed. The informer must not have been started, and is started by
// the caller. Events end with ctx.
func NewPodFeed(ctx context.Context, pods v1.PodInformer) (*PodFeed, error) {
	f := &PodFeed{ctx: ctx, informer: pods.Informer(), controllers: make(map[string]*PodController)}
	err := f.informer.AddIndexers(cache.Indexers{byNode: func(object any) ([]string, error) {
		if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			return []string{pod.Spec.NodeName}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("pod feed: %w", err)
	}
	f.registration, err = f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { f.hand(object.(*corev1.Pod), (*PodController).added) },
		UpdateFunc: func(before, after any) {
			was, is := before.(*corev1.Pod), after.(*corev1.Pod)
			if was.UID != is.UID {
				f.hand(was, (*PodController).deleted)
				f.hand(is, (*PodController).added)
				return
			}
			f.hand(is, func(pc *PodController, ctx context.Context, pod *corev1.Pod) { pc.updated(ctx, was, pod) })
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			f.hand(object.(*corev1.Pod), (*PodController).deleted)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("pod feed: %w", err)
	}
	return f, nil
}

func (f *PodFeed) hand(pod *corev1.Pod, event func(*PodController, context.Context, *corev1.Pod)) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if pc, ok := f.controllers[pod.Spec.NodeName]; ok && f.ctx.Err() == nil {
		event(pc, f.ctx, pod)
	}
}

// HasSynced tells whether all pods were seen. Controllers must not run before.
func (f *PodFeed) HasSynced() bool { return f.informer.HasSynced() && f.registration.HasSynced() }

// FilterFor is the PodEventFilterFunc of the controller of a node.
func (*PodFeed) FilterFor(node string) PodEventFilterFunc {
	return func(_ context.Context, pod *corev1.Pod) bool { return pod.Spec.NodeName == node }
}

// Add gives the controller of a node the pods that are bound to it, from now on and
// those that are already.
func (f *PodFeed) Add(node string, pc *PodController) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.controllers[node]; ok {
		return fmt.Errorf("pod feed: node %s: has a controller already", node)
	}
	objects, err := f.informer.GetIndexer().ByIndex(byNode, node)
	if err != nil {
		return fmt.Errorf("pod feed: node %s: %w", node, err)
	}
	f.controllers[node] = pc
	for _, object := range objects {
		pc.added(f.ctx, object.(*corev1.Pod))
	}
	return nil
}

// Remove ends what Add began. It may be called for nodes that were not added.
func (f *PodFeed) Remove(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.controllers, node)
}

// Close ends all events. The informer goes on.
func (f *PodFeed) Close() error { return f.informer.RemoveEventHandler(f.registration) }
