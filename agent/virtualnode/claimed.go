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

// claimProvider wraps another provider. It has the claims of a pod prepared before the inner
// provider gets the pod. When the pod has ended, it has them unprepared before Kubernetes learns of
// the end.
type claimProvider struct {
	inner    Provider
	preparer *claims.Preparer
	pods     corelisters.PodLister

	background  sync.WaitGroup
	sweepNeeded chan struct{} // gets a value when pods may have gone whose claims must be released

	mu sync.Mutex
	// reported has the running pods, as the inner provider last reported them. notify is the pod
	// controller's function for reports.
	reported map[types.UID]*corev1.Pod
	notify   func(*corev1.Pod)
	// creating has the pods for which CreatePod is running.
	creating map[types.UID]bool
	// driverCalls has the calls of drivers that are running, by pod.
	driverCalls map[types.UID]*driverCall
	// refusals has the errors of pods that the inner provider refused, while their claims are being
	// released.
	refusals map[types.UID]error
	// ending has the pods that have ended, and whose claims are being released. They are reported
	// as existing, even if the inner provider no longer has them.
	ending map[types.NamespacedName]*corev1.Pod
	// sweeping has the pods whose claims sweep releases. CreatePod refuses them meanwhile.
	sweeping map[types.UID]bool
	// requeue queues a pod in the pod controller again.
	requeue func(key string)
}

func newClaimProvider(inner Provider, preparer *claims.Preparer, pods corelisters.PodLister) *claimProvider {
	return &claimProvider{
		inner: inner, preparer: preparer, pods: pods, sweepNeeded: make(chan struct{}, 1),
		reported: make(map[types.UID]*corev1.Pod), creating: make(map[types.UID]bool), ending: make(map[types.NamespacedName]*corev1.Pod), sweeping: make(map[types.UID]bool),
		driverCalls: make(map[types.UID]*driverCall), refusals: make(map[types.UID]error), requeue: func(string) {},
	}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// CreatePod prepares the claims of a pod, and then creates it in the inner provider. After an
// error, prepared claims remain so for the next attempt. They are released if the error is final.
// If drivers take long, CreatePod returns an error, and the pod is queued again when they have
// answered.
func (c *claimProvider) CreatePod(ctx context.Context, pod *corev1.Pod) error {
	if !c.startCreating(pod.UID) {
		return fmt.Errorf("pod %s: its claims are being released", klog.KObj(pod))
	}
	defer c.endCreating(pod.UID)
	refusal := c.refusalOf(pod.UID)
	if refusal == nil {
		if err := c.callDrivers(pod, func() error { return c.preparer.Prepare(ctx, pod) }); err != nil {
			return err
		}
		refusal = c.inner.CreatePod(ctx, pod)
		if !errdefs.IsInvalidInput(refusal) {
			return refusal
		}
	}
	err := c.callDrivers(pod, func() error { return c.preparer.Release(ctx, pod.UID) })
	if errors.Is(err, errBusy) {
		c.setRefusal(pod.UID, refusal)
		return err
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Claims of a pod that cannot run are released later", "pod", klog.KObj(pod))
	}
	c.setRefusal(pod.UID, nil)
	return refusal
}

// startCreating marks a pod as being created. It returns false if its claims are being released.
func (c *claimProvider) startCreating(pod types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sweeping[pod] {
		return false
	}
	c.creating[pod] = true
	return true
}

// endCreating removes the mark. It triggers a sweep, since the pod may have been deleted meanwhile.
func (c *claimProvider) endCreating(pod types.UID) {
	c.mu.Lock()
	delete(c.creating, pod)
	c.mu.Unlock()
	c.triggerSweep()
}

// NotifyPods registers the function for reports. The end of a pod is reported after its claims were
// released.
func (c *claimProvider) NotifyPods(ctx context.Context, cb func(*corev1.Pod)) {
	c.mu.Lock()
	c.notify = cb
	c.mu.Unlock()
	c.inner.NotifyPods(ctx, func(pod *corev1.Pod) {
		switch {
		case pod == nil:
		case !hasEnded(pod):
			c.reportRunning(pod)
		case c.markEnding(pod):
			c.background.Go(func() { c.release(ctx, pod, cb) })
		}
	})
}

// markEnding stores the final status of a pod. It returns false if the release of its claims has
// already begun.
func (c *claimProvider) markEnding(pod *corev1.Pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reported, pod.UID)
	before := c.ending[nameOf(pod)]
	c.ending[nameOf(pod)] = pod
	return before == nil || before.UID != pod.UID
}

func (c *claimProvider) release(ctx context.Context, pod *corev1.Pod, cb func(*corev1.Pod)) {
	if err := c.preparer.AwaitRelease(ctx, pod.UID); err != nil {
		return // the node stops; after a restart, sweep finds the pod
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
func (c *claimProvider) UpdatePod(ctx context.Context, pod *corev1.Pod) error {
	return c.ignoreIfEnding(c.inner.UpdatePod(ctx, pod), pod)
}

// DeletePod implements node.PodLifecycleHandler.
func (c *claimProvider) DeletePod(ctx context.Context, pod *corev1.Pod) error {
	return c.ignoreIfEnding(c.inner.DeletePod(ctx, pod), pod)
}

// ignoreIfEnding returns err, unless the inner provider does not know a pod whose claims are still
// being released.
func (c *claimProvider) ignoreIfEnding(err error, pod *corev1.Pod) error {
	if errdefs.IsNotFound(err) && c.endingPod(nameOf(pod)) != nil {
		return nil
	}
	return err
}

func (c *claimProvider) endingPod(name types.NamespacedName) *corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending[name]
}

// GetPod implements node.PodLifecycleHandler.
func (c *claimProvider) GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod, err := c.inner.GetPod(ctx, namespace, name)
	if pod == nil && (err == nil || errdefs.IsNotFound(err)) {
		if ending := c.endingPod(types.NamespacedName{Namespace: namespace, Name: name}); ending != nil {
			return ending, nil
		}
	}
	return pod, err
}

// GetPodStatus implements node.PodLifecycleHandler.
func (c *claimProvider) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := c.GetPod(ctx, namespace, name)
	if pod == nil || err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

// GetPods implements node.PodLifecycleHandler.
func (c *claimProvider) GetPods(ctx context.Context) ([]*corev1.Pod, error) {
	return c.inner.GetPods(ctx)
}

// handlers returns event handlers that trigger a sweep when a pod was deleted or has ended.
func (c *claimProvider) handlers() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, after any) {
			if hasEnded(after.(*corev1.Pod)) {
				c.triggerSweep()
			}
		},
		DeleteFunc: func(any) { c.triggerSweep() },
	}
}

func (c *claimProvider) triggerSweep() {
	select {
	case c.sweepNeeded <- struct{}{}:
	default:
	}
}

// prepareAgain has drivers prepare the claims of pods again that were there before this process.
func (c *claimProvider) prepareAgain(ctx context.Context) {
	known := c.preparer.Pods()
	pods, err := c.pods.List(labels.Everything())
	if err != nil {
		klog.FromContext(ctx).Error(err, "Claims are not prepared again")
		return
	}
	for _, pod := range pods {
		if slices.Contains(known, pod.UID) && !hasEnded(pod) {
			c.background.Go(func() { _ = c.preparer.AwaitAgain(ctx, pod) }) // it fails when the node ends
		}
	}
}

// sweep releases the claims of pods that no longer run, until ctx ends. Such pods were deleted
// while the node was down, never ran, or were lost by the provider. A driver that does not answer
// blocks only the pods that use its devices.
func (c *claimProvider) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		for _, uid := range c.preparer.Pods() {
			if !c.isActive(ctx, uid) {
				c.background.Go(func() { c.sweepOne(ctx, uid) })
			}
		}
		c.forgetDeleted()
		select {
		case <-ctx.Done():
		case <-c.sweepNeeded:
		}
	}
}

func (c *claimProvider) sweepOne(ctx context.Context, uid types.UID) {
	if err := c.preparer.AwaitRelease(ctx, uid); err != nil {
		klog.FromContext(ctx).Error(err, "Claims of a pod that is gone are not released", "pod", uid)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sweeping, uid)
}

// isActive tells whether the claims of a pod must remain prepared. If not, it marks the pod, so
// that it is not created before the claims are released.
func (c *claimProvider) isActive(ctx context.Context, uid types.UID) bool {
	if !c.startSweeping(uid) {
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

// startSweeping marks a pod as being swept. It returns false if the pod is being created, or its
// claims are already being released.
func (c *claimProvider) startSweeping(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.creating[uid] || c.driverCalls[uid] != nil || c.sweeping[uid] {
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

// exists tells whether the inner provider has the pod, or Kubernetes has it in a phase that is not
// final.
func (c *claimProvider) exists(ctx context.Context, uid types.UID) (found bool, err error) {
	defer func() {
		if value := recover(); value != nil { // the pod controller will end with the same panic
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
