// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/provider/internal/podstatus"
	"github.com/dray-project/dray/agent/provider/process/internal/supervisor"
)

// killDelay is how long after its deadline a pod is killed if its supervisor has not ended it.
const killDelay = 2 * time.Second

// Reason and message of a pod whose activeDeadlineSeconds have passed. They are kubelet's.
const (
	reasonDeadline  = "DeadlineExceeded"
	messageDeadline = "Pod was active on the node longer than the specified deadline"
)

// runningPod follows one pod, and reports its status.
type runningPod struct {
	provider    *Provider
	pod         *corev1.Pod   // as it was created
	changed     chan struct{} // gets a value when the state may have changed
	leave       func()        // makes follow return; may be called repeatedly
	left        chan struct{}
	forgetAtEnd atomic.Bool // the pod was deleted without grace; it is forgotten when it has ended

	mu       sync.Mutex
	current  *supervisor.Pod
	reported *corev1.Pod // with its latest status; it is copied before it is changed
	event    int64       // number of the latest Event that was recorded
	deadline time.Time   // when remaining processes are killed; zero unless the pod is ending
	expired  bool        // its activeDeadlineSeconds have passed
}

func newRunningPod(provider *Provider, pod *corev1.Pod, started *supervisor.Pod) *runningPod {
	r := &runningPod{provider: provider, current: started, pod: pod, reported: pod, changed: make(chan struct{}, 1), left: make(chan struct{})}
	r.leave = sync.OnceFunc(func() { close(r.left) })
	pending := *pod
	pending.Status = podstatus.Of(pod, metav1.Now(), waiting(pod, pod.Spec.InitContainers), waiting(pod, pod.Spec.Containers), false, metav1.Now())
	r.reported = &pending
	return r
}

func waiting(pod *corev1.Pod, containers []corev1.Container) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for i := range containers {
		out = append(out, podstatus.Waiting(&containers[i], 0, podstatus.FirstReason(pod)))
	}
	return out
}

// supervisor returns the latest supervisor of the pod.
func (r *runningPod) supervisor() *supervisor.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// triggerRead makes follow read the state again.
func (r *runningPod) triggerRead() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// follow reports the status of the pod at each change, until the provider closes left.
func (r *runningPod) follow() {
	done := r.supervisor().Done()
	var again *time.Timer // runs while the pod waits for a new supervisor
	var due <-chan time.Time
	for {
		timer := time.NewTimer(r.untilAction())
		select {
		case <-r.left:
		case <-done:
			done = nil
			if pause, may := r.restartDelay(); may {
				again = time.NewTimer(pause)
				due = again.C
				break
			}
			r.handleEnd()
		case <-due:
			due = nil
			if done = r.restartSupervisor(); done == nil {
				r.handleEnd()
			}
		case <-r.changed:
			if due != nil && r.isEnding() {
				again.Stop()
				due = nil
				r.handleEnd()
				break
			}
			r.reportStatus()
		case <-timer.C:
			r.act()
		}
		timer.Stop()
		select {
		case <-r.left:
			if due != nil {
				again.Stop()
			}
			return
		default:
		}
	}
}

// handleEnd reports the end of a pod. If the pod was deleted without grace, it also forgets the
// pod.
func (r *runningPod) handleEnd() {
	r.finish()
	if !r.forgetAtEnd.Load() {
		return
	}
	if err := r.provider.forget(r); err != nil {
		klog.Background().Error(err, "What is left of a pod is not removed", "pod", klog.KObj(r.pod))
	}
}

// reportStatus reports the status of the pod even if it has not changed, because the receiver may
// be new.
func (r *runningPod) reportStatus() {
	state, err := r.supervisor().State()
	switch {
	case r.over():
		r.change(func(*corev1.Pod) {})
	case err != nil:
		klog.Background().Error(err, "State of a pod cannot be read", "pod", klog.KObj(r.pod))
	case len(state.Containers) > 0 && !state.Over: // finish reports the last state
		r.report(state)
	}
	r.recordEvents(state.Events)
}

// recordEvents records Events that were not recorded before.
func (r *runningPod) recordEvents(events []supervisor.Event) {
	recorder := r.provider.options.Recorder
	for _, event := range events {
		r.mu.Lock()
		told := event.Number <= r.event
		r.event = max(r.event, event.Number)
		r.mu.Unlock()
		if told || recorder == nil {
			continue
		}
		recorder.Event(r.reference(event.Field), event.Type, event.Reason, event.Message)
	}
}

// reference returns what an Event is about: a field of the pod, or the pod if it is empty.
func (r *runningPod) reference(field string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: r.pod.Namespace, Name: r.pod.Name, UID: r.pod.UID, FieldPath: field}
}

// skipEvents marks all events as recorded, because an earlier provider may have recorded them.
func (r *runningPod) skipEvents() {
	if state, err := r.current.State(); err == nil && len(state.Events) > 0 {
		r.event = state.Events[len(state.Events)-1].Number
	}
}

// forever stands for no timeout.
const forever = 365 * 24 * time.Hour

// untilAction returns the time until act must be called.
func (r *runningPod) untilAction() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	over := r.reported.Status.Phase == corev1.PodSucceeded || r.reported.Status.Phase == corev1.PodFailed
	switch expiry := r.expiry(); {
	case over:
	case !r.deadline.IsZero():
		return time.Until(r.deadline.Add(killDelay))
	case !expiry.IsZero():
		return time.Until(expiry)
	}
	return forever
}

// expiry returns when the pod's activeDeadlineSeconds have passed, or zero if it has none.
func (r *runningPod) expiry() time.Time {
	if r.reported.Spec.ActiveDeadlineSeconds == nil || r.reported.Status.StartTime == nil {
		return time.Time{}
	}
	return r.reported.Status.StartTime.Add(time.Duration(*r.reported.Spec.ActiveDeadlineSeconds) * time.Second)
}

// act ends a pod whose activeDeadlineSeconds have passed. If the pod is already ending and past its
// deadline, act kills it.
func (r *runningPod) act() {
	r.mu.Lock()
	ending := !r.deadline.IsZero()
	r.expired = r.expired || !ending
	r.mu.Unlock()
	if ending {
		r.supervisor().Kill()
		r.postpone()
		return
	}
	if recorder := r.provider.options.Recorder; recorder != nil {
		recorder.Event(r.reference(""), corev1.EventTypeNormal, reasonDeadline, messageDeadline)
	}
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if r.pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *r.pod.Spec.TerminationGracePeriodSeconds
	}
	if err := r.end(time.Duration(grace) * time.Second); err != nil {
		klog.Background().Error(err, "Pod whose time is over is killed", "pod", klog.KObj(r.pod))
		r.supervisor().Kill()
	}
}

// postpone moves the deadline, so that act is called again if the kill has no effect.
func (r *runningPod) postpone() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deadline = time.Now()
}

// end ends the processes within a grace period. An earlier deadline remains.
func (r *runningPod) end(grace time.Duration) error {
	deadline := time.Now().Add(grace)
	r.mu.Lock()
	if r.deadline.IsZero() || deadline.Before(r.deadline) {
		r.deadline = deadline
	}
	deadline = r.deadline
	current := r.current // no supervisor is started after the deadline is set
	r.mu.Unlock()
	r.triggerRead()
	if err := current.End(deadline); err != nil {
		return fmt.Errorf("pod %s: end: %w", klog.KObj(r.pod), err)
	}
	return nil
}

// finish reports the end of the pod. If its supervisor was killed, running containers count as
// killed.
func (r *runningPod) finish() {
	state, err := r.supervisor().State()
	if err != nil {
		klog.Background().Error(err, "State of a pod cannot be read", "pod", klog.KObj(r.pod))
	}
	r.recordEvents(state.Events)
	if len(state.Containers) == 0 {
		state.Began = metav1.Now()
		state.Inits, state.Containers = waiting(r.pod, r.pod.Spec.InitContainers), waiting(r.pod, r.pod.Spec.Containers)
	}
	if !state.Over {
		failure := r.supervisor().Failure()
		for i := range state.Inits {
			if state.Inits[i].State.Running != nil {
				state.Inits[i] = podstatus.Killed(&r.pod.Spec.InitContainers[i], &state.Inits[i], metav1.Now(), failure)
			}
		}
		for i := range state.Containers {
			state.Containers[i] = podstatus.Killed(&r.pod.Spec.Containers[i], &state.Containers[i], metav1.Now(), failure)
		}
	}
	state.Over = true
	r.report(state)
}

func (r *runningPod) report(state supervisor.State) {
	r.change(func(pod *corev1.Pod) {
		pod.Status = podstatus.Of(r.reported, state.Began, state.Inits, state.Containers, state.Over, metav1.Now())
		if r.expired {
			podstatus.Fail(r.reported, &pod.Status, reasonDeadline, messageDeadline, state.Over, metav1.Now())
		}
	})
}

// change modifies a copy of the pod, and reports it. Reports are in order.
func (r *runningPod) change(change func(*corev1.Pod)) {
	r.provider.mu.Lock()
	notify := r.provider.notify
	r.provider.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := *r.reported
	change(&changed)
	r.reported = &changed
	notify(r.reported)
}

// update replaces the pod's metadata and spec. Its processes do not change.
func (r *runningPod) update(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	updated := *pod
	updated.Status = r.reported.Status
	r.reported = &updated
	r.triggerRead() // activeDeadlineSeconds may have changed
}

func (r *runningPod) latest() *corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reported
}

func (r *runningPod) over() bool {
	phase := r.latest().Status.Phase
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
