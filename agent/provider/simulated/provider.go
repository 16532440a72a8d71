// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/agent/provider/internal/podstatus"
)

// restartPause is the pause before a container is restarted.
const restartPause = 10 * time.Second

// Provider simulates pods. It implements node.PodLifecycleHandler and
// node.PodNotifier. Methods may be called concurrently.
type Provider struct {
	script *Script

	mu     sync.Mutex
	pods   map[types.NamespacedName]*simulated
	notify func(*corev1.Pod)
}

// simulated is a pod. Its timer has the next change.
type simulated struct {
	pod      *corev1.Pod // with its status
	rule     Rule
	created  metav1.Time
	began    metav1.Time // the latest start of the containers
	restarts int32
	timer    *time.Timer // nil: no change is scheduled
}

// New returns a provider without pods. A nil script has no rules.
func New(script *Script) *Provider {
	if script == nil {
		script = &Script{}
	}
	return &Provider{script: script, pods: make(map[types.NamespacedName]*simulated), notify: func(*corev1.Pod) {}}
}

// NotifyPods implements node.PodNotifier. The function is called in the order of changes, and must
// not call the provider.
func (p *Provider) NotifyPods(_ context.Context, cb func(*corev1.Pod)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notify = cb
}

// Adopt continues a running pod of an earlier provider from its status. Nothing changes before the
// caller calls begin, which it must do when it is ready for reports. Invalid annotations are errors
// of the class InvalidInput.
func (p *Provider) Adopt(pod *corev1.Pod) (begin func(), err error) {
	rule, err := p.script.ruleFor(pod)
	if err != nil {
		return nil, err
	}
	s := &simulated{pod: pod, rule: rule, created: pod.CreationTimestamp}
	if pod.Status.StartTime != nil {
		s.created = *pod.Status.StartTime
	}
	s.began = s.created
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil {
			s.restarts, s.began = max(s.restarts, status.RestartCount), status.State.Running.StartedAt
		} else {
			s.restarts = max(s.restarts, podstatus.NextRestarts(&status))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pods[nameOf(pod)] = s
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.pods[nameOf(pod)] == s && s.timer == nil && rule.RunFor.Duration > 0 {
			p.after(s, rule.RunFor.Duration-time.Since(s.began.Time), p.finish)
		}
	}, nil
}

// CreatePod starts a pod. Invalid annotations are errors of the class InvalidInput.
func (p *Provider) CreatePod(_ context.Context, pod *corev1.Pod) error {
	rule, err := p.script.ruleFor(pod)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	name := nameOf(pod)
	if before, ok := p.pods[name]; ok {
		before.stop()
	}
	s := &simulated{pod: pod, rule: rule, created: metav1.Now()}
	p.pods[name] = s
	if rule.StartAfter.Duration == 0 {
		p.begin(s)
		return nil
	}
	p.report(s, podstatus.Of(pod, s.created, nil, s.waiting(), false, s.created))
	p.after(s, rule.StartAfter.Duration, p.begin)
	return nil
}

// UpdatePod updates the pod's metadata and spec. Its rule does not change.
func (p *Provider) UpdatePod(_ context.Context, pod *corev1.Pod) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.pods[nameOf(pod)]
	if !ok {
		return notFound(pod.Namespace, pod.Name)
	}
	updated := pod.DeepCopy()
	updated.Status = s.pod.Status
	s.pod = updated
	return nil
}

// DeletePod ends a pod after EndAfter of its rule.
func (p *Provider) DeletePod(_ context.Context, pod *corev1.Pod) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.pods[nameOf(pod)]
	if !ok {
		return notFound(pod.Namespace, pod.Name)
	}
	s.stop()
	if s.rule.EndAfter.Duration > 0 {
		p.after(s, s.rule.EndAfter.Duration, p.remove)
		return nil
	}
	p.remove(s)
	return nil
}

// GetPod implements node.PodLifecycleHandler.
func (p *Provider) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.pods[types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok {
		return nil, notFound(namespace, name)
	}
	return s.pod, nil
}

// GetPodStatus implements node.PodLifecycleHandler.
func (p *Provider) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := p.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

// GetPods returns all pods, sorted by name.
func (p *Provider) GetPods(context.Context) ([]*corev1.Pod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pods []*corev1.Pod
	for _, name := range slices.SortedFunc(maps.Keys(p.pods), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	}) {
		pods = append(pods, p.pods[name].pod)
	}
	return pods, nil
}

// Close stops the simulation. Pods keep their status.
func (p *Provider) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.pods {
		s.stop()
	}
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

func notFound(namespace, name string) error {
	return errdefs.NotFoundf("pod %s/%s: not on this node", namespace, name)
}

// begin starts the containers. The caller of this and the following methods holds the lock.
func (p *Provider) begin(s *simulated) {
	s.began = metav1.Now()
	p.report(s, podstatus.Of(s.pod, s.created, nil, s.each(func(c *corev1.Container) corev1.ContainerStatus {
		return podstatus.Running(c, s.restarts, s.began)
	}), false, s.began))
	if s.rule.RunFor.Duration > 0 {
		p.after(s, s.rule.RunFor.Duration, p.finish)
	}
}

// finish ends the containers after RunFor, and restarts them if the restart policy says so.
func (p *Provider) finish(s *simulated) {
	if podstatus.Restarts(s.pod, s.rule.ExitCode) {
		now := metav1.Now()
		p.report(s, podstatus.Of(s.pod, s.created, nil, s.each(func(c *corev1.Container) corev1.ContainerStatus {
			ended := podstatus.Ended(c, s.restarts, s.rule.ExitCode, 0, s.began, now)
			return podstatus.BackOff(s.pod, c, &ended, restartPause)
		}), false, now))
		p.after(s, restartPause, func(s *simulated) {
			s.restarts++
			p.begin(s)
		})
		return
	}
	p.end(s, s.rule.ExitCode)
}

// remove removes a deleted pod. Its containers end with exit code 0, as if SIGTERM had ended them.
func (p *Provider) remove(s *simulated) {
	delete(p.pods, nameOf(s.pod))
	if s.pod.Status.Phase != corev1.PodSucceeded && s.pod.Status.Phase != corev1.PodFailed {
		p.end(s, 0)
	}
}

func (p *Provider) end(s *simulated, exitCode int32) {
	now := metav1.Now()
	began := s.began
	if began.IsZero() {
		began = now
	}
	p.report(s, podstatus.Of(s.pod, s.created, nil, s.each(func(c *corev1.Container) corev1.ContainerStatus {
		return podstatus.Ended(c, s.restarts, exitCode, 0, began, now)
	}), true, now))
}

// report sets the status of a pod, and reports it. It changes a copy, since earlier reports may
// still be read.
func (p *Provider) report(s *simulated, status corev1.PodStatus) {
	changed := *s.pod
	changed.Status = status
	s.pod = &changed
	p.notify(s.pod)
}

// after schedules the next change of a pod. It replaces one that is scheduled.
func (p *Provider) after(s *simulated, d time.Duration, next func(*simulated)) {
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if s.timer == timer {
			s.timer = nil
			next(s)
		}
	})
	s.timer = timer
}

func (s *simulated) stop() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

func (s *simulated) waiting() []corev1.ContainerStatus {
	return s.each(func(c *corev1.Container) corev1.ContainerStatus {
		return podstatus.Waiting(c, s.restarts, "ContainerCreating")
	})
}

func (s *simulated) each(status func(*corev1.Container) corev1.ContainerStatus) []corev1.ContainerStatus {
	statuses := make([]corev1.ContainerStatus, len(s.pod.Spec.Containers))
	for i := range s.pod.Spec.Containers {
		statuses[i] = status(&s.pod.Spec.Containers[i])
	}
	return statuses
}
