// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/agent/internal/fakecluster"
)

// TestRestart: claims of pods that run are prepared again, and what is left over is unprepared, also of
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
	if _, err := n.preparer.CDIDevices(pod("a", "one")); err == nil {
		t.Error("there are devices that the driver did not prepare since the start")
	}
	for _, want := range [][]string{{"prepare one"}, nil} {
		n.prepare(t, pod("a", "one"))
		same(t, "calls for a pod that runs", gpu.Taken(), want...)
	}
	if devices, err := n.preparer.CDIDevices(pod("a", "one")); err != nil || len(devices["main"]) != 2 {
		t.Errorf("devices after the restart: %v, %v", devices, err)
	}
}

// TestAwaitAgain: after a restart, drivers prepare the claims again that pods still have.
func TestAwaitAgain(t *testing.T) {
	skipping := claim("skipping", []string{nics}, "a")
	skipping.Status.Allocation.Devices.Results[0].SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationNodePrepareResources}
	n := newNode(t, claim("one", []string{gpus, nics}, "a", "b"), claim("two", []string{gpus}, "b"), skipping)
	gpu, nic := n.driver(t, gpus), n.driver(t, nics)
	a, b := pod("a", "one", "skipping"), pod("b", "one", "two")
	n.prepare(t, a)
	n.prepare(t, b)
	n.preparer.Stop()
	gpu.Stop()
	gpu.Taken()
	nic.Taken()
	n.start(t)
	n.registered(t, nics)

	again := func(pod *v1.Pod) <-chan error {
		done := make(chan error, 1)
		go func() { done <- n.preparer.AwaitAgain(t.Context(), pod) }()
		return done
	}
	done := again(a)
	select {
	case event := <-n.recorder.Events:
		t.Errorf("event %s, and the driver may start later", event)
	case err := <-done:
		t.Fatalf("prepared without the driver: %v", err)
	case <-time.After(2 * firstRetry):
	}
	gpu.Set(func() { gpu.Refuse["prepare one"] = "boom" })
	listen(t, gpu)
	select {
	case event := <-n.recorder.Events:
		if !strings.Contains(event, ReasonFailed+" claim ns/one: driver gpu.example.com: boom") {
			t.Errorf("event %s", event)
		}
	case <-time.After(time.Minute):
		t.Fatal("no event of a driver that fails")
	}
	gpu.Set(func() { clear(gpu.Refuse) })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	calls := gpu.Taken()
	if calls = slices.Compact(calls); !slices.Equal(calls, []string{"prepare one"}) {
		t.Errorf("calls of the GPU driver: %q", calls)
	}
	same(t, "calls of the NIC driver", nic.Taken(), "prepare one")
	if devices, err := n.preparer.CDIDevices(a); err != nil || len(devices["main"]) != 4 {
		t.Errorf("devices after the restart: %v, %v", devices, err)
	}
	// The other pod is released while its claims are to be prepared, and stays so.
	unlock, err := n.preparer.records.lock(t.Context(), []types.UID{"two"})
	if err != nil {
		t.Fatal(err)
	}
	done = again(b)
	time.Sleep(50 * time.Millisecond) // it waits for the claim
	for _, known := range n.preparer.records.all(ofPod("b")) {
		if err := n.preparer.records.store(known.without("b")); err != nil {
			t.Fatal(err)
		}
	}
	unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	same(t, "calls for a pod that was released", gpu.Taken())
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
	second.UID, second.Status.Allocation.Devices.Results[0].Pool = "second", "another"
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

// TestRecordsAreSorted: records are in the order of namespace, name and UID, in which drivers are called and the checkpoint is written.
func TestRecordsAreSorted(t *testing.T) {
	r, err := openRecords(filepath.Join(t.TempDir(), "claims"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a/x 1", "a/x 2", "a/y 0", "b/a 9", "b/a/b 0", "c/a 5", "c/b 4", "c/c 3"}
	for _, i := range []int{5, 0, 7, 2, 4, 1, 6, 3} {
		name, uid, _ := strings.Cut(want[i], " ")
		namespace, name, _ := strings.Cut(name, "/")
		if err := r.store(&claimRecord{Namespace: namespace, Name: name, UID: types.UID(namespace + name + uid), Pods: []types.UID{"pod"}}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, known := range r.all(ofPod("pod")) {
		got = append(got, fmt.Sprintf("%s/%s %c", known.Namespace, known.Name, known.UID[len(known.UID)-1]))
	}
	same(t, "records", got, want...)
}

// TestRecordsThatCannotBeStored: what is not in the checkpoint is not known either, or a restart would know less.
func TestRecordsThatCannotBeStored(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := openRecords(filepath.Join(folder, "claims"))
	if err != nil {
		t.Fatal(err)
	}
	kept := &claimRecord{Namespace: "ns", Name: "kept", UID: "kept", Pods: []types.UID{"pod"}}
	if err := r.store(kept); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // a file is no folder
		t.Fatal(err)
	}
	for _, change := range []*claimRecord{{UID: "new", Pods: []types.UID{"pod"}}, {UID: "kept"}} {
		if err := r.store(change); err == nil {
			t.Error("a record is stored in a folder that is a file")
		}
		if got := r.all(ofPod("pod")); len(got) != 1 || got[0].UID != kept.UID || len(got[0].Pods) != 1 {
			t.Errorf("after a failure: records %v", got)
		}
	}
}
