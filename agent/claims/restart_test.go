// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/agent/internal/fakecluster"
)

// TestRestart: what is prepared stays so, and what is left over is unprepared, also of
// pods that were deleted by force meanwhile.
func TestRestart(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"), claim("two", []string{gpus}, "b"))
	gpu := n.driver(t, gpus)
	n.prepare(t, pod("a", "one"))
	n.prepare(t, pod("b", "two"))
	n.preparer.Stop()
	gpu.Taken()
	n.start(t)
	n.registered(t, gpus)
	if err := n.preparer.ReleaseExcept(t.Context(), func(pod types.UID) bool { return pod == "a" }); err != nil {
		t.Fatal(err)
	}
	same(t, "calls", gpu.Taken(), "unprepare two")
	n.prepare(t, pod("a", "one"))
	same(t, "calls for a pod that runs", gpu.Taken())
	if devices, err := n.preparer.CDIDevices(pod("a", "one")); err != nil || len(devices["main"]) != 2 {
		t.Errorf("devices after the restart: %v, %v", devices, err)
	}
}

// TestLeftoverIsUnpreparedAfterRestart, as soon as the driver is there.
func TestLeftoverIsUnpreparedAfterRestart(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"))
	gpu := n.driver(t, gpus)
	n.prepare(t, pod("a", "one"))
	gpu.Stop()
	fakecluster.Eventually(t, "the driver is gone", func() bool { _, err := n.preparer.plugins.client(gpus); return err != nil })
	contains(t, n.preparer.Release(t.Context(), "a"), "driver gpu.example.com: not registered")
	n.preparer.Stop()
	n.start(t)
	listen(t, gpu)
	fakecluster.Eventually(t, "unprepare", func() bool { return len(gpu.Holds()) == 0 })
}

// TestRecreatedClaim: a claim with the name of one that was deleted is another claim.
func TestRecreatedClaim(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"))
	gpu := n.driver(t, gpus)
	n.prepare(t, pod("a", "one"))
	second := claim("one", []string{gpus}, "b")
	second.UID = "second"
	if err := n.client.Tracker().Update(resourceapi.SchemeGroupVersion.WithResource("resourceclaims"), second, "ns"); err != nil {
		t.Fatal(err)
	}
	n.prepare(t, pod("b", "one"))
	same(t, "prepared", gpu.Holds(), "one", "second")
	if devices, err := n.preparer.CDIDevices(pod("b", "one")); err != nil || devices["main"][0] != "gpu.example.com/claim=second-0" {
		t.Errorf("devices of the second pod: %v, %v", devices, err)
	}
	n.release(t, pod("a"))
	same(t, "prepared after the first pod", gpu.Holds(), "second")
}

// TestCheckpointErrors: nothing is asked of drivers that cannot be noted before.
func TestCheckpointErrors(t *testing.T) {
	n := newNode(t, claim("one", []string{gpus}, "a"))
	gpu := n.driver(t, gpus)
	folder := filepath.Dir(n.options().Checkpoint)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	contains(t, n.preparer.Prepare(t.Context(), pod("a", "one")), "write checkpoint")
	same(t, "calls", gpu.Taken())
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	n.prepare(t, pod("a", "one"))
	n.preparer.Stop()
	if err := os.WriteFile(n.options().Checkpoint, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), n.options()); !errors.As(err, new(*DamagedError)) {
		t.Errorf("error %v", err)
	}
}
