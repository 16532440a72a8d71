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

// killDelay is how long after its deadline a pod may still run before it is ended without its
// supervisor.
const killDelay = 2 * time.Second

// The reason and the message of a pod whose time is over are kubelet's.
const (
	reasonDeadline  = "DeadlineExceeded"
	messageDeadline = "Pod was active on the node longer than the specified deadline"
)

// runningPod is a pod with its supervisor.
type runningPod struct {
	provider *Provider
	pod      *corev1.Pod   // as it was created
	changed  chan struct{} // has something when the state may be another one
	leave    func()        // has follow return; may be called again
	left     chan struct{}
	gone     atomic.Bool // nobody asks for it when it has ended

	mu       sync.Mutex
	current  *supervisor.Pod
	reported *corev1.Pod // with its status; what was handed out is not modified
	event    int64       // number of the last one that was told
	deadline time.Time   // when what still runs is killed, once it is to end
	expired  bool        // its activeDeadlineSeconds are over
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

// supervisor is the latest one of the pod.
func (r *runningPod) supervisor() *supervisor.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// look has follow read the state.
func (r *runningPod) look() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// follow tells how the pod is, until the provider leaves it.
func (r *runningPod) follow() {
	done := r.supervisor().Done()
	var again *time.Timer // when there is to be another supervisor
	var due <-chan time.Time
	for {
		timer := time.NewTimer(r.untilAction())
		select {
		case <-r.left:
		case <-done:
			done = nil
			if pause, may := r.mayRunAgain(); may {
				again = time.NewTimer(pause)
				due = again.C
				break
			}
			r.ended()
		case <-due:
			due = nil
			if done = r.runAgain(); done == nil {
				r.ended()
			}
		case <-r.changed:
			if due != nil && r.isEnding() {
				again.Stop()
				due = nil
				r.ended()
				break
			}
			r.reportChange()
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

// ended tells the end of a pod, and forgets it if nobody asks.
func (r *runningPod) ended() {
	r.finish()
	if !r.gone.Load() {
		return
	}
	if err := r.provider.forget(r); err != nil {
		klog.Background().Error(err, "What is left of a pod is not removed", "pod", klog.KObj(r.pod))
	}
}

// reportChange tells how the pod is, whether that is new or not: who is told may be.
func (r *runningPod) reportChange() {
	state, err := r.supervisor().State()
	switch {
	case r.over():
		r.tell(func(*corev1.Pod) {})
	case err != nil:
		klog.Background().Error(err, "State of a pod cannot be read", "pod", klog.KObj(r.pod))
	case len(state.Containers) > 0 && !state.Over: // else finish tells it
		r.report(state)
	}
	r.record(state.Events)
}

// record tells the events that are new.
func (r *runningPod) record(events []supervisor.Event) {
	recorder := r.provider.options.Recorder
	for _, event := range events {
		r.mu.Lock()
		told := event.Number <= r.event
		r.event = max(r.event, event.Number)
		r.mu.Unlock()
		if told || recorder == nil {
			continue
		}
		recorder.Event(&corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: r.pod.Namespace, Name: r.pod.Name, UID: r.pod.UID, FieldPath: event.Field,
		}, event.Type, event.Reason, event.Message)
	}
}

// skipEvents leaves out what an earlier provider may have told.
func (r *runningPod) skipEvents() {
	if state, err := r.current.State(); err == nil && len(state.Events) > 0 {
		r.event = state.Events[len(state.Events)-1].Number
	}
}

// forever is longer than anything runs.
const forever = 365 * 24 * time.Hour

// untilAction is how long there is nothing to do about the pod.
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

// expiry is when the pod's activeDeadlineSeconds are over, or zero.
func (r *runningPod) expiry() time.Time {
	if r.reported.Spec.ActiveDeadlineSeconds == nil || r.reported.Status.StartTime == nil {
		return time.Time{}
	}
	return r.reported.Status.StartTime.Add(time.Duration(*r.reported.Spec.ActiveDeadlineSeconds) * time.Second)
}

// act ends a pod whose time is over, and kills one whose grace is over and that still runs.
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
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if r.pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *r.pod.Spec.TerminationGracePeriodSeconds
	}
	if err := r.end(time.Duration(grace) * time.Second); err != nil {
		klog.Background().Error(err, "Pod whose time is over is killed", "pod", klog.KObj(r.pod))
		r.supervisor().Kill()
	}
}

// postpone has act called again, should the kill take long.
func (r *runningPod) postpone() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deadline = time.Now()
}

// end has the processes end within a time from now, unless they are to end sooner.
func (r *runningPod) end(grace time.Duration) error {
	deadline := time.Now().Add(grace)
	r.mu.Lock()
	if r.deadline.IsZero() || deadline.Before(r.deadline) {
		r.deadline = deadline
	}
	deadline = r.deadline
	current := r.current // after which there is no other one
	r.mu.Unlock()
	r.look()
	if err := current.End(deadline); err != nil {
		return fmt.Errorf("pod %s: end: %w", klog.KObj(r.pod), err)
	}
	return nil
}

// finish tells how the pod ended. If its supervisor was killed, nobody knows how its containers
// did.
func (r *runningPod) finish() {
	state, err := r.supervisor().State()
	if err != nil {
		klog.Background().Error(err, "State of a pod cannot be read", "pod", klog.KObj(r.pod))
	}
	r.record(state.Events)
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
	r.tell(func(pod *corev1.Pod) {
		pod.Status = podstatus.Of(r.reported, state.Began, state.Inits, state.Containers, state.Over, metav1.Now())
		if r.expired && state.Over {
			pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, reasonDeadline, messageDeadline
		}
	})
}

// tell tells what became of a pod, in order.
func (r *runningPod) tell(change func(*corev1.Pod)) {
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

// update changes what may change of a pod that runs.
func (r *runningPod) update(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	updated := *pod
	updated.Status = r.reported.Status
	r.reported = &updated
	r.look() // its time may be over at another moment
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
