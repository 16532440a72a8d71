// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// expectDevices waits until a claim has certain devices.
func (r *rig) expectDevices(name string, want ...string) {
	r.t.Helper()
	eventually(r.t, func() error {
		claim, err := r.client.ResourceV1().ResourceClaims("default").Get(r.ctx, name, metav1.GetOptions{})
		if err == nil && !slices.Equal(devicesOf(claim), want) {
			err = fmt.Errorf("claim %s has devices %v, want %v", name, devicesOf(claim), want)
		}
		return err
	})
}

// A pod that is preempted while its devices get ready is not deleted, but tried again. Its devices are for the other one at once.
func TestPodPreemptedInPreBindGivesUpDevices(t *testing.T) {
	r, err := newScheduler(t, dray, roomy("a"), gpuClass(), attached(gpus("a", 1)), gpuClaim("of-low", 1), gpuClaim("of-high", 1))
	r.must(err)
	r.run()
	r.create(withPriority(podWith("low", "of-low"), 1))
	r.expectDevices("of-low", "a/gpu-0")
	r.create(withPriority(podWith("high", "of-high"), 5))
	r.expectDevices("of-high", "a/gpu-0")
	r.expectDevices("of-low")
	if r.pod("low").DeletionTimestamp != nil {
		t.Error("the pod was deleted: it was preempted once more while it gave up its devices")
	}
}

// A pod whose devices are only reserved cannot be preempted for them: who uses a claim in flight is written nowhere. A pod of higher
// priority tries again when the other one is bound.
func TestPodPreemptsOnesThatWereInFlight(t *testing.T) {
	for name, first := range map[string]*corev1.Pod{"claim by name": podWith("first", "of-first"), "extended resources": extended(podWith("first"))} {
		t.Run(name, func(t *testing.T) {
			r, err := newScheduler(t, dray, roomy("a"), gpuClass(), gpus("a", 1), gpuClaim("of-first", 1), gpuClaim("of-high", 1))
			r.must(err)
			r.run()
			r.create(withPriority(first, 1))
			<-r.held
			r.create(withPriority(podWith("high", "of-high"), 5))
			r.waitForRejection("high")
			r.handle.GetWaitingPod(r.pod("first").UID).Allow("Counter")
			eventually(t, func() error { // it is evicted when it is bound, or gives up its devices before
				_, err := r.client.CoreV1().Pods("default").Get(r.ctx, "first", metav1.GetOptions{})
				if apierrors.IsNotFound(err) || r.pod("high").Spec.NodeName != "" {
					return nil
				}
				return fmt.Errorf("pod first is not preempted after %d attempts of pod high", r.attemptsOf("high"))
			})
		})
	}
}
