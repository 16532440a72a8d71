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

// patience is how long the controller of pods waits for drivers before it does something else:
// it brings few pods forward at a time, and a driver may take minutes.
const patience = 500 * time.Millisecond

// errBusy says that drivers are being called for a pod.
var errBusy = errors.New("a driver takes long over its claims")

// call is one of drivers that goes on in the background.
type call struct {
	done chan struct{}
	err  error // to be read after done
	late bool  // nobody waits for it any more
}

// wait calls drivers for a pod, and returns the error of the call, or errBusy if it takes long,
// or if an earlier call does. The controller then looks at the pod again when the call has
// ended.
func (c *claimed) wait(pod *corev1.Pod, do func() error) error {
	busy := fmt.Errorf("pod %s: %w", klog.KObj(pod), errBusy)
	mine := &call{done: make(chan struct{})}
	c.mu.Lock()
	other := c.calling[pod.UID]
	if other == nil {
		c.calling[pod.UID] = mine
	}
	c.mu.Unlock()
	if other != nil {
		return busy
	}
	c.background.Go(func() {
		mine.err = do()
		c.called(pod, mine)
	})
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-mine.done:
		return mine.err
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-mine.done: // just now
		return mine.err
	default:
		mine.late = true
		return busy
	}
}

func (c *claimed) called(pod *corev1.Pod, ended *call) {
	c.mu.Lock()
	delete(c.calling, pod.UID)
	late := ended.late
	close(ended.done)
	c.mu.Unlock()
	if late {
		c.again(nameOf(pod).String())
		c.look() // the pod may have gone meanwhile
	}
}

func (c *claimed) refusalOf(pod types.UID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusals[pod]
}

// refuse remembers why a pod does not run; nil forgets it.
func (c *claimed) refuse(pod types.UID, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if why == nil {
		delete(c.refusals, pod)
	} else {
		c.refusals[pod] = why
	}
}
