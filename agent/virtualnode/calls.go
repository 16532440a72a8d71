// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// driverWait is how long a worker of the pod controller waits for drivers before it takes the next
// pod. There are few workers, and a driver may take minutes.
const driverWait = 500 * time.Millisecond

// errBusy says that a call of drivers for a pod has not ended yet.
var errBusy = errors.New("a driver takes long over its claims")

// driverCall is a call of drivers for one pod, in the background.
type driverCall struct {
	done chan struct{}
	err  error // valid after done is closed
	late bool  // callDrivers stopped waiting for the call
}

// callDrivers calls drivers for a pod in the background, and returns the result. It returns errBusy
// if the call takes longer than driverWait, or if another one for the pod is running. The pod is
// queued again when the late call has ended.
func (c *claimProvider) callDrivers(pod *corev1.Pod, do func() error) error {
	busy := fmt.Errorf("pod %s: %w", klog.KObj(pod), errBusy)
	mine := &driverCall{done: make(chan struct{})}
	c.mu.Lock()
	other := c.driverCalls[pod.UID]
	if other == nil {
		c.driverCalls[pod.UID] = mine
	}
	c.mu.Unlock()
	if other != nil {
		return busy
	}
	c.background.Go(func() {
		mine.err = do()
		c.callEnded(pod, mine)
	})
	timer := time.NewTimer(driverWait)
	defer timer.Stop()
	select {
	case <-mine.done:
		return mine.err
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-mine.done: // it ended just in time
		return mine.err
	default:
		mine.late = true
		return busy
	}
}

func (c *claimProvider) callEnded(pod *corev1.Pod, ended *driverCall) {
	c.mu.Lock()
	delete(c.driverCalls, pod.UID)
	late := ended.late
	close(ended.done)
	c.mu.Unlock()
	if late {
		c.requeue(nameOf(pod).String())
		c.triggerSweep() // the pod may have been deleted meanwhile
	}
}

func (c *claimProvider) refusalOf(pod types.UID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusals[pod]
}

// setRefusal stores why the inner provider refused a pod. nil removes the entry.
func (c *claimProvider) setRefusal(pod types.UID, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if why == nil {
		delete(c.refusals, pod)
	} else {
		c.refusals[pod] = why
	}
}
