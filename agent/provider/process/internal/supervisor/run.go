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

// member is a container of a pod, with what became of it.
type member struct {
	*Container
	spec   *corev1.Container
	field  string // of the pod
	init   bool   // one of the init containers
	status *corev1.ContainerStatus
	// stop is closed when the container is to end, and not to run again.
	stop <-chan struct{}
	// over says that it ended for good before this supervisor began.
	over bool
}

func (m *member) isSidecar() bool { return m.init && podstatus.IsSidecar(m.spec) }

// restarts tells whether the container is to run again after it ended.
func (m *member) restarts(pod *corev1.Pod, exitCode int32) bool {
	switch {
	case m.isSidecar():
		return true
	case m.init:
		return exitCode != 0 && pod.Spec.RestartPolicy != corev1.RestartPolicyNever
	}
	return podstatus.Restarts(pod, exitCode)
}

// begin writes the first state: from now on, this supervisor runs the pod. If there was one
// before, restarts are counted on.
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
			m.goOn(&last[i], r.plan.Pod)
		}
	}
	return r.tell(func() {})
}

// goOn has a container go on after what an earlier supervisor wrote of it.
func (m *member) goOn(last *corev1.ContainerStatus, pod *corev1.Pod) {
	ended := podstatus.Killed(m.spec, last, metav1.Now(), "")
	switch {
	case last.State.Waiting != nil: // it may have ended before
		m.status.RestartCount, m.status.LastTerminationState = last.RestartCount, last.LastTerminationState
	case !m.init && !m.restarts(pod, ended.State.Terminated.ExitCode):
		*m.status, m.over = ended, true
	default:
		m.status.RestartCount, m.status.LastTerminationState = last.RestartCount+1, ended.State
	}
}

// run runs the init containers, and then all others until none is to run again. Sidecars end
// after the others, the last one first.
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
	return errors.Join(append(failed, r.tell(func() { r.state.Over = true }))...)
}

func (r *running) tell(change func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	return checkpoint.Write(filepath.Join(r.folder, stateFile), r.state)
}

// event adds an event about a container to the state.
func (r *running) event(m *member, kind, reason, message string) {
	err := r.tell(func() {
		var number int64
		if n := len(r.state.Events); n > 0 {
			number = r.state.Events[n-1].Number
		}
		r.state.Events = append(r.state.Events, Event{Number: number + 1, Field: m.field, Type: kind, Reason: reason, Message: message})
		r.state.Events = r.state.Events[max(0, len(r.state.Events)-maxEvents):]
	})
	r.complain(err)
}

// The pauses before a container that ended again runs again, as kubelet makes them. One that
// ran for long enough begins anew.
const (
	firstPause = 10 * time.Second
	lastPause  = 5 * time.Minute
	longRun    = 2 * lastPause
)

// runContainer runs a container until it is not to run again, and tells each state. It calls
// started when it has started for the first time.
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
			return r.tell(func() { *m.status = ended })
		}
		if time.Since(began) > longRun {
			pause = 0
		}
		status = podstatus.Waiting(m.spec, ended.RestartCount+1, "CrashLoopBackOff")
		status.LastTerminationState = ended.State
		if pause > 0 {
			if err := r.tell(func() { *m.status = status }); err != nil {
				return err
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-m.stop:
			timer.Stop()
			return r.tell(func() { *m.status = ended })
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

// Exit codes of what did not run, as shells and container runtimes give them.
const (
	exitNotStarted = 128
	exitSignal     = 128 // plus the signal's number
)

// runOnce starts a container that waits, waits for it, and returns how it ended. The error says
// that its state cannot be told.
func (r *running) runOnce(m *member, waiting *corev1.ContainerStatus, started func()) (corev1.ContainerStatus, error) {
	began, restarts := metav1.Now(), waiting.RestartCount
	ended := func(code, signal int32) corev1.ContainerStatus {
		status := podstatus.Ended(m.spec, restarts, code, signal, began, metav1.Now())
		status.LastTerminationState = waiting.LastTerminationState
		status.Ready = m.init && !m.isSidecar() && code == 0
		return status
	}
	notStarted := func(err error) (corev1.ContainerStatus, error) {
		status := ended(exitNotStarted, 0)
		status.State.Terminated.Reason, status.State.Terminated.Message = "StartError", err.Error()
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
	if err := r.tell(func() { *m.status = status }); err != nil {
		_ = container.init.Process.Kill() // nobody would know of it
		<-container.done
		return status, err
	}
	probes := r.probe(m, container, started)
	r.waitFor(m, container, probes.failed)
	probes.stop()
	over := ended(container.Code, container.Signal)
	over.ContainerID = status.ContainerID
	over.State.Terminated.ContainerID = status.ContainerID
	if r.oomKills(m) > kills {
		over.State.Terminated.Reason = "OOMKilled"
	}
	return over, nil
}

// oomKills is how many processes of a container the kernel ended for want of memory.
func (r *running) oomKills(m *member) uint64 {
	if !m.Grouped {
		return 0
	}
	kills, err := cgroup.OOMKills(cgroup.Container(r.plan.Group, m.Name))
	r.complain(err)
	return kills
}

// waitFor returns when a container has ended, which it is told to when it is to stop or when a
// probe has failed. It has the time for that which the pod or the probe says.
func (r *running) waitFor(m *member, container *launched, failed <-chan time.Duration) {
	grace := graceOf(r.plan.Pod)
	select {
	case <-container.done:
		return
	case <-m.stop:
	case grace = <-failed:
	}
	_ = container.init.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	over := timer.C
	if r.isEnding() {
		over = nil // the pod's deadline counts
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

// graceOf is how long a pod's containers have to end.
func graceOf(pod *corev1.Pod) time.Duration {
	return time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)) * time.Second
}
