// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package schedplugin

import (
	"fmt"
	"slices"
	"testing"

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
