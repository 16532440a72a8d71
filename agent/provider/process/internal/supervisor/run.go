// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/checkpoint"
	"github.com/dray-project/dray/agent/provider/internal/podstatus"
	"github.com/dray-project/dray/agent/provider/process/internal/cgroup"
)

// member is a container of a pod, with its status.
type member struct {
	*Container
	spec   *corev1.Container
	field  string // path in the pod
	init   bool   // it is an init container
	status *corev1.ContainerStatus
	// stop is closed when the container must end and not be restarted.
	stop <-chan struct{}
	// over says that the container ended for good under an earlier supervisor.
	over bool
}

func (m *member) isSidecar() bool { return m.init && podstatus.IsSidecar(m.spec) }

// restarts tells whether the container is restarted after this exit code.
func (m *member) restarts(pod *corev1.Pod, exitCode int32) bool {
	switch {
	case m.isSidecar():
		return true
	case m.init:
		return exitCode != 0 && pod.Spec.RestartPolicy != corev1.RestartPolicyNever
	}
	return podstatus.Restarts(pod, exitCode)
}

// begin writes the first state of this supervisor. If there was an earlier supervisor, it continues
// from its state.
func (r *running) begin() error {
	before, err := checkpoint.Read[State](filepath.Join(r.folder, stateFile))
	if err != nil {
		return err
	}
	spec := &r.plan.Pod.Spec
	r.state = State{Began: metav1.Now(), Inits: make([]corev1.ContainerStatus, len(r.plan.Inits)), Containers: make([]corev1.ContainerStatus, len(r.plan.Containers))}
	if len(before.Containers) > 0 {
		r.state.Began, r.state.Supervisors, r.state.Events = before.Began, before.Supervisors+1, before.Events
	}
	for i := range r.plan.Inits {
		r.members = append(r.members, &member{
			Container: &r.plan.Inits[i], spec: &spec.InitContainers[i], init: true, status: &r.state.Inits[i],
			field: fmt.Sprintf("spec.initContainers{%s}", r.plan.Inits[i].Name),
		})
	}
	for i := range r.plan.Containers {
		r.members = append(r.members, &member{
			Container: &r.plan.Containers[i], spec: &spec.Containers[i], status: &r.state.Containers[i], stop: r.ending,
			field: fmt.Sprintf("spec.containers{%s}", r.plan.Containers[i].Name),
		})
	}
	last := slices.Concat(before.Inits, before.Containers)
	for i, m := range r.members {
		*m.status = podstatus.Waiting(m.spec, 0, podstatus.FirstReason(r.plan.Pod))
		if len(last) == len(r.members) {
			m.resume(&last[i], r.plan.Pod)
		}
	}
	return r.writeState(func() {})
}

// resume sets the status of a container from the last one that an earlier supervisor wrote.
func (m *member) resume(last *corev1.ContainerStatus, pod *corev1.Pod) {
	ended := podstatus.Killed(m.spec, last, metav1.Now(), "")
	switch {
	case last.State.Waiting != nil: // it waits for a restart
		m.status.RestartCount, m.status.LastTerminationState = last.RestartCount, last.LastTerminationState
	case !m.init && !m.restarts(pod, ended.State.Terminated.ExitCode):
		*m.status, m.over = ended, true
	default:
		m.status.RestartCount, m.status.LastTerminationState = last.RestartCount, ended.State
	}
}

// run runs the init containers in order, and then all containers until none is to be restarted.
// Sidecars are stopped afterwards, the last one first.
func (r *running) run() error {
	var background sync.WaitGroup
	var failed []error
	var mu sync.Mutex
	inBackground := func(m *member, started, ended func()) {
		background.Go(func() {
			defer ended()
			if err := r.runContainer(m, started); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			}
		})
	}
	inits := r.members[:len(r.plan.Inits)]
	type sidecar struct{ stop, ended chan struct{} }
	var sidecars []sidecar
	initialized := true
	for _, m := range inits {
		if !initialized || r.isEnding() {
			initialized = false
			break
		}
		if !m.isSidecar() {
			m.stop = r.ending
			if err := r.runContainer(m, func() {}); err != nil {
				failed, initialized = append(failed, err), false
			}
			initialized = initialized && m.status.State.Terminated != nil && m.status.State.Terminated.ExitCode == 0
			continue
		}
		s, started := sidecar{make(chan struct{}), make(chan struct{})}, make(chan struct{})
		m.stop = s.stop
		sidecars = append(sidecars, s)
		inBackground(m, sync.OnceFunc(func() { close(started) }), func() { close(s.ended) })
		select {
		case <-started:
		case <-s.ended:
		case <-r.ending:
		}
	}
	if initialized && !r.isEnding() {
		var others sync.WaitGroup
		for _, m := range r.members[len(inits):] {
			if !m.over {
				others.Add(1)
				inBackground(m, func() {}, others.Done)
			}
		}
		others.Wait()
	}
	for _, s := range slices.Backward(sidecars) {
		close(s.stop)
		<-s.ended
	}
	background.Wait()
	return errors.Join(append(failed, r.writeState(func() { r.state.Over = true }))...)
}

func (r *running) writeState(change func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	return checkpoint.Write(filepath.Join(r.folder, stateFile), r.state)
}

// event adds an Event about a container to the state.
func (r *running) event(m *member, kind, reason, message string) {
	err := r.writeState(func() {
		var number int64
		if n := len(r.state.Events); n > 0 {
			number = r.state.Events[n-1].Number
		}
		r.state.Events = append(r.state.Events, Event{Number: number + 1, Field: m.field, Type: kind, Reason: reason, Message: message})
		r.state.Events = r.state.Events[max(0, len(r.state.Events)-maxEvents):]
	})
	r.logError(err)
}

// Limits of the backoff before a container is restarted, as in kubelet. The backoff is reset after
// a run longer than longRun.
const (
	firstPause = 10 * time.Second
	lastPause  = 5 * time.Minute
	longRun    = 2 * lastPause
)

// runContainer runs a container until it is not to be restarted. It writes each change of its
// status to the state. It calls started when the container has started, which may be more than
// once.
func (r *running) runContainer(m *member, started func()) error {
	var pause time.Duration
	status := *m.status
	for {
		began := time.Now()
		ended, err := r.runOnce(m, &status, started)
		if err != nil {
			return err
		}
		if isClosed(m.stop) || !m.restarts(r.plan.Pod, ended.State.Terminated.ExitCode) {
			return r.writeState(func() { *m.status = ended })
		}
		if time.Since(began) > longRun {
			pause = 0
		}
		status = podstatus.BackOff(r.plan.Pod, m.spec, &ended, pause)
		if pause > 0 {
			if err := r.writeState(func() { *m.status = status }); err != nil {
				return err
			}
			r.event(m, corev1.EventTypeWarning, reasonBackOff, podstatus.BackOffEvent(r.plan.Pod, m.spec))
		}
		timer := time.NewTimer(pause)
		select {
		case <-m.stop:
			timer.Stop()
			return r.writeState(func() { *m.status = ended })
		case <-timer.C:
		}
		pause = max(firstPause, min(2*pause, lastPause))
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Exit codes as shells and container runtimes use them.
const (
	exitNotStarted = 128
	exitSignal     = 128 // plus the signal's number
)

// runOnce starts a container, waits for its end, and returns its final status. An error says that
// the state could not be written.
func (r *running) runOnce(m *member, waiting *corev1.ContainerStatus, started func()) (corev1.ContainerStatus, error) {
	began, restarts := metav1.Now(), podstatus.NextRestarts(waiting)
	ended := func(code, signal int32) corev1.ContainerStatus {
		status := podstatus.Ended(m.spec, restarts, code, signal, began, metav1.Now())
		status.LastTerminationState = waiting.LastTerminationState
		status.Ready = m.init && !m.isSidecar() && code == 0
		return status
	}
	notStarted := func(err error) (corev1.ContainerStatus, error) {
		status := ended(exitNotStarted, 0)
		status.State.Terminated.Reason, status.State.Terminated.Message = "StartError", err.Error()
		r.event(m, corev1.EventTypeWarning, reasonFailed, bounded("Error: "+err.Error()))
		return status, nil
	}
	log, err := openLog(filepath.Join(r.plan.LogFolder, m.Name), restarts)
	if err != nil {
		return notStarted(err)
	}
	defer log.close()
	kills := r.oomKills(m)
	container, err := launch(m.Container, r.plan.Group, log)
	if err != nil {
		return notStarted(err)
	}
	status := podstatus.Running(m.spec, restarts, began)
	status.ContainerID, status.LastTerminationState = fmt.Sprintf("process://%d", container.pid), waiting.LastTerminationState
	status.Started = ptr.To(m.spec.StartupProbe == nil)
	status.Ready = *status.Started && m.spec.ReadinessProbe == nil && (!m.init || m.isSidecar())
	if err := r.writeState(func() { *m.status = status }); err != nil {
		_ = container.init.Process.Kill() // without a state, nobody would know that it runs
		<-container.done
		return status, err
	}
	r.event(m, corev1.EventTypeNormal, reasonStarted, "Container started")
	probes := r.startProbes(m, container, started)
	r.waitFor(m, container, probes.failed)
	probes.stop()
	over := ended(container.Code, container.Signal)
	over.ContainerID = status.ContainerID
	over.State.Terminated.ContainerID = status.ContainerID
	if r.oomKills(m) > kills {
		over.State.Terminated.Reason = "OOMKilled"
	}
	if container.Code != 0 && m.spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		over.State.Terminated.Message = podstatus.TerminationMessage(r.plan.Pod, log.termination())
	}
	return over, nil
}

// oomKills returns how many processes of a container the OOM killer has ended.
func (r *running) oomKills(m *member) uint64 {
	if !m.Grouped {
		return 0
	}
	kills, err := cgroup.OOMKills(cgroup.Container(r.plan.Group, m.Name))
	r.logError(err)
	return kills
}

// waitFor returns when a container has ended. When stop is closed or a probe has failed, it sends
// SIGTERM. It sends SIGKILL after the grace period of the pod or of the probe.
func (r *running) waitFor(m *member, container *launched, failed <-chan time.Duration) {
	grace := graceOf(r.plan.Pod)
	select {
	case <-container.done:
		return
	case <-m.stop:
		r.event(m, corev1.EventTypeNormal, reasonKilling, "Stopping container "+m.Name)
	case grace = <-failed:
	}
	_ = container.init.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	over := timer.C
	if r.isEnding() {
		over = nil // the deadline of the pod applies instead
	}
	select {
	case <-container.done:
		return
	case <-r.ending:
		r.awaitDeadline(container.done)
	case <-over:
	}
	_ = container.init.Process.Kill()
	<-container.done
}

// graceOf returns the termination grace period of a pod.
func graceOf(pod *corev1.Pod) time.Duration {
	return time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)) * time.Second
}
