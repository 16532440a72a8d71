// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/claims"
	"github.com/dray-project/dray/agent/node/errdefs"
)

// claimed is a provider that has the claims of pods prepared before another provider gets
// them, and released before Kubernetes is told that they ended.
type claimed struct {
	inner    Provider
	preparer *claims.Preparer
	pods     corelisters.PodLister

	background sync.WaitGroup
	seen       chan struct{} // has something when a pod went that may have claims

	mu sync.Mutex
	// reported are the pods that run, as the inner provider reported them last, and notify is
	// who is told.
	reported map[types.UID]*corev1.Pod
	notify   func(*corev1.Pod)
	// creating are pods that the inner provider may not have yet.
	creating map[types.UID]bool
	// calling are pods for which drivers are called in the background.
	calling map[types.UID]*call
	// refusals are why the inner provider does not run pods whose claims are being released.
	refusals map[types.UID]error
	// ending are pods that have ended and whose claims are being released. For Kubernetes
	// they exist, although the inner provider may have forgotten them.
	ending map[types.NamespacedName]*corev1.Pod
	// sweeping are the pods that sweep releases. They are not created meanwhile.
	sweeping map[types.UID]bool
	// again has the controller look at a pod again.
	again func(key string)
}

func newClaimed(inner Provider, preparer *claims.Preparer, pods corelisters.PodLister) *claimed {
	return &claimed{
		inner: inner, preparer: preparer, pods: pods, seen: make(chan struct{}, 1),
		reported: make(map[types.UID]*corev1.Pod), creating: make(map[types.UID]bool), ending: make(map[types.NamespacedName]*corev1.Pod), sweeping: make(map[types.UID]bool),
		calling: make(map[types.UID]*call), refusals: make(map[types.UID]error), again: func(string) {},
	}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// CreatePod prepares the claims of a pod first. Claims that are prepared when something
// fails stay so for the next attempt, unless there will be none. If drivers take long, it
// returns an error, and there is another attempt when they have answered.
func (c *claimed) CreatePod(ctx context.Context, pod *corev1.Pod) error {
	if !c.begin(pod.UID) {
		return fmt.Errorf("pod %s: its claims are being released", klog.KObj(pod))
	}
	defer c.begun(pod.UID)
	refusal := c.refusalOf(pod.UID)
	if refusal == nil {
		if err := c.wait(pod, func() error { return c.preparer.Prepare(ctx, pod) }); err != nil {
			return err
		}
		refusal = c.inner.CreatePod(ctx, pod)
		if !errdefs.IsInvalidInput(refusal) {
			return refusal
		}
	}
	err := c.wait(pod, func() error { return c.preparer.Release(ctx, pod.UID) })
	if errors.Is(err, errBusy) {
		c.refuse(pod.UID, refusal)
		return err
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Claims of a pod that cannot run are released later", "pod", klog.KObj(pod))
	}
	c.refuse(pod.UID, nil)
	return refusal
}

// begin is false while the pod's claims are being released.
func (c *claimed) begin(pod types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sweeping[pod] {
		return false
	}
	c.creating[pod] = true
	return true
}

// begun has sweep look again: the pod may have gone meanwhile.
func (c *claimed) begun(pod types.UID) {
	c.mu.Lock()
	delete(c.creating, pod)
	c.mu.Unlock()
	c.look()
}

// NotifyPods hands over a function that the inner provider calls. That a pod has ended is
// passed on when its claims are released.
func (c *claimed) NotifyPods(ctx context.Context, cb func(*corev1.Pod)) {
	c.mu.Lock()
	c.notify = cb
	c.mu.Unlock()
	c.inner.NotifyPods(ctx, func(pod *corev1.Pod) {
		switch {
		case pod == nil:
		case !hasEnded(pod):
			c.pass(pod)
		case c.end(pod):
			c.background.Go(func() { c.release(ctx, pod, cb) })
		}
	})
}

// end is false if the end of the pod is being dealt with already.
func (c *claimed) end(pod *corev1.Pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reported, pod.UID)
	before := c.ending[nameOf(pod)]
	c.ending[nameOf(pod)] = pod
	return before == nil || before.UID != pod.UID
}

func (c *claimed) release(ctx context.Context, pod *corev1.Pod, cb func(*corev1.Pod)) {
	if err := c.preparer.AwaitRelease(ctx, pod.UID); err != nil {
		return // the node ends; the next one finds the pod
	}
	c.mu.Lock()
	latest := c.ending[nameOf(pod)]
	c.mu.Unlock()
	if latest != nil && latest.UID == pod.UID {
		pod = latest
	}
	cb(pod)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending[nameOf(pod)] == latest {
		delete(c.ending, nameOf(pod))
	}
}

// UpdatePod implements node.PodLifecycleHandler.
func (c *claimed) UpdatePod(ctx context.Context, pod *corev1.Pod) error {
	return c.unlessEnding(c.inner.UpdatePod(ctx, pod), pod)
}

// DeletePod implements node.PodLifecycleHandler.
func (c *claimed) DeletePod(ctx context.Context, pod *corev1.Pod) error {
	return c.unlessEnding(c.inner.DeletePod(ctx, pod), pod)
}

// unlessEnding is the error, unless it says that the inner provider has forgotten a pod whose
// end is still being dealt with.
func (c *claimed) unlessEnding(err error, pod *corev1.Pod) error {
	if errdefs.IsNotFound(err) && c.endingPod(nameOf(pod)) != nil {
		return nil
	}
	return err
}

func (c *claimed) endingPod(name types.NamespacedName) *corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending[name]
}

// GetPod implements node.PodLifecycleHandler.
func (c *claimed) GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod, err := c.inner.GetPod(ctx, namespace, name)
	if pod == nil && (err == nil || errdefs.IsNotFound(err)) {
		if ending := c.endingPod(types.NamespacedName{Namespace: namespace, Name: name}); ending != nil {
			return ending, nil
		}
	}
	return pod, err
}

// GetPodStatus implements node.PodLifecycleHandler.
func (c *claimed) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := c.GetPod(ctx, namespace, name)
	if pod == nil || err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

// GetPods implements node.PodLifecycleHandler.
func (c *claimed) GetPods(ctx context.Context) ([]*corev1.Pod, error) { return c.inner.GetPods(ctx) }

// handlers have sweep look when a pod went, or ended without the provider's doing.
func (c *claimed) handlers() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, after any) {
			if hasEnded(after.(*corev1.Pod)) {
				c.look()
			}
		},
		DeleteFunc: func(any) { c.look() },
	}
}

func (c *claimed) look() {
	select {
	case c.seen <- struct{}{}:
	default:
	}
}

// sweep releases the claims of pods that are gone, until ctx ends: those that went while the
// node was down, those that never ran, and those that the provider lost. A driver that does
// not answer holds up those that have its devices.
func (c *claimed) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		for _, uid := range c.preparer.Pods() {
			if !c.isActive(ctx, uid) {
				c.background.Go(func() { c.sweepOne(ctx, uid) })
			}
		}
		c.forgetReports()
		select {
		case <-ctx.Done():
		case <-c.seen:
		}
	}
}

func (c *claimed) sweepOne(ctx context.Context, uid types.UID) {
	if err := c.preparer.AwaitRelease(ctx, uid); err != nil {
		klog.FromContext(ctx).Error(err, "Claims of a pod that is gone are not released", "pod", uid)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sweeping, uid)
}

// isActive tells whether a pod's claims are to stay. If not, the pod is not created before
// they are released.
func (c *claimed) isActive(ctx context.Context, uid types.UID) bool {
	if !c.beginSweeping(uid) {
		return true
	}
	active, err := c.exists(ctx, uid)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Claims stay, because it is not known which pods there are", "pod", uid)
		active = true
	}
	if active {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.sweeping, uid)
	}
	return active
}

// beginSweeping is false for pods that are being created, or are released already.
func (c *claimed) beginSweeping(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.creating[uid] || c.calling[uid] != nil || c.sweeping[uid] {
		return false
	}
	for _, pod := range c.ending {
		if pod.UID == uid {
			return false
		}
	}
	c.sweeping[uid] = true
	return true
}

// exists tells whether the inner provider has a pod, or Kubernetes has it and it has not
// ended.
func (c *claimed) exists(ctx context.Context, uid types.UID) (found bool, err error) {
	defer func() {
		if value := recover(); value != nil { // the controller of pods ends when it meets it
			err = fmt.Errorf("the provider panicked in GetPods: %v", value)
		}
	}()
	stored, err := c.pods.List(labels.Everything())
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(stored, func(pod *corev1.Pod) bool { return pod.UID == uid && !hasEnded(pod) }) {
		return true, nil
	}
	provided, err := c.inner.GetPods(ctx)
	return slices.ContainsFunc(provided, func(pod *corev1.Pod) bool { return pod != nil && pod.UID == uid }), err
}
