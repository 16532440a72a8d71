// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// The limits of the backoff before a pod gets a new supervisor, after its supervisor was killed
// twice. They are those for containers.
const (
	firstPause = 10 * time.Second
	lastPause  = 5 * time.Minute
)

// restartDelay tells whether a pod whose supervisor has ended gets a new one, and after which
// pause. It gets none if all its containers have ended, if it is being deleted, if its restart
// policy is Never, or if its supervisor reported a failure.
func (r *runningPod) restartDelay() (pause time.Duration, may bool) {
	current := r.supervisor()
	state, err := current.State()
	if err != nil || state.Over || len(state.Containers) == 0 || current.Failure() != "" {
		return 0, false
	}
	if r.pod.Spec.RestartPolicy == corev1.RestartPolicyNever || r.isEnding() {
		return 0, false
	}
	return pauseAfter(state.Supervisors), true
}

// pauseAfter returns the pause before the next supervisor of a pod, by how many it had after the first.
func pauseAfter(again int) time.Duration {
	if again == 0 {
		return 0
	}
	return min(firstPause<<min(again-1, 10), lastPause)
}

// restartSupervisor starts a new supervisor. It returns a channel that is closed when that ends, or
// nil if none was started.
func (r *runningPod) restartSupervisor() <-chan struct{} {
	if r.provider.isClosed() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.deadline.IsZero() {
		return nil
	}
	again, err := r.current.Again()
	if err != nil {
		klog.Background().Error(err, "Pod whose supervisor was killed does not run again", "pod", klog.KObj(r.pod))
		return nil
	}
	klog.Background().Info("Pod whose supervisor was killed runs again", "pod", klog.KObj(r.pod))
	r.current.Close()
	r.current = again
	return again.Done()
}

func (r *runningPod) isEnding() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.deadline.IsZero()
}
