// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/checkpoint"
	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/agent/provider/process"
)

// doomed is set in the environment of a provider that is killed: where its folders are.
const doomed = "PROCESS_TEST_DOOMED"

// TestDoomed is the provider that the tests of adoption kill. It creates the pods that it
// reads, says so, and waits.
func TestDoomed(t *testing.T) {
	folder := os.Getenv(doomed)
	if folder == "" {
		return
	}
	provider, err := process.New(process.Options{Folder: filepath.Join(folder, "pods"), LogFolder: filepath.Join(folder, "logs"), CDIFolders: []string{folder}})
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(os.Stdin)
	for {
		var pod corev1.Pod
		if err := decoder.Decode(&pod); err != nil {
			t.Fatal(err)
		}
		if err := provider.CreatePod(t.Context(), &pod); err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stderr.WriteString("created\n")
	}
}

// kill has a provider create pods and killed at once, and returns a fixture that opens a
// new one in its folders.
func killed(t *testing.T, pods ...*corev1.Pod) *fixture {
	t.Helper()
	folder := t.TempDir()
	f := &fixture{logs: filepath.Join(folder, "logs"), reports: make(chan *corev1.Pod, 1000)}
	f.options = process.Options{Folder: filepath.Join(folder, "pods"), LogFolder: f.logs, CDIFolders: []string{folder}}
	provider := exec.Command("/proc/self/exe", "-test.run=^TestDoomed$")
	provider.Env = append(os.Environ(), doomed+"="+folder)
	input, err := provider.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := provider.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	provider.Stdout = os.Stderr
	if err := provider.Start(); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		if err := json.NewEncoder(input).Encode(pod); err != nil {
			t.Fatal(err)
		}
		if n, err := output.Read(make([]byte, len("created\n"))); err != nil {
			t.Fatal(n, err)
		}
	}
	if err := provider.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = provider.Wait()
	return f
}

// TestAdoption: what runs when the provider is killed runs on, is found by the next one, and
// ends as it says; so does all that it started, in sessions of its own, too.
func TestAdoption(t *testing.T) {
	long := shell(`trap 'echo ends; exit 5' TERM; setsid sleep 98765 & sleep 98764 & echo began; while :; do sleep 0.1; done`, corev1.RestartPolicyAlways)
	short := shell("sleep 0.5; echo late; exit 3", corev1.RestartPolicyNever)
	short.Name, short.UID = "b", "uid-b"
	f := killed(t, long, short)
	f.awaitLog(t, "began")
	before := f.processes(t)
	f.open(t)
	t.Cleanup(func() { f.Close(0) })
	seen := make(map[string]*corev1.PodStatus)
	for deadline := time.After(patience); len(seen) < 2; {
		select {
		case pod := <-f.reports:
			if pod.Name == "a" && pod.Status.Phase == corev1.PodRunning || pod.Name == "b" && pod.Status.Phase == corev1.PodFailed {
				seen[pod.Name] = &pod.Status
			}
		case <-deadline:
			t.Fatalf("only %v were reported", seen)
		}
	}
	if ended := seen["b"].ContainerStatuses[0].State.Terminated; ended == nil || ended.ExitCode != 3 {
		t.Errorf("b ended with %v", ended)
	}
	if pods, err := f.GetPods(t.Context()); err != nil || len(pods) != 2 {
		t.Errorf("pods %v, %v", pods, err)
	}
	long.DeletionGracePeriodSeconds = ptr.To[int64](3600)
	for _, pod := range []*corev1.Pod{long, short} {
		if err := f.DeletePod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	f.await(t, "the end of a with what its trap says", func(s *corev1.PodStatus) bool {
		return s.Phase == corev1.PodFailed && s.ContainerStatuses[0].State.Terminated.ExitCode == 5
	})
	f.expectNoProcess(t)
	if len(before) < 5 {
		t.Errorf("processes %v: not those of two pods", before)
	}
	if err := f.DeletePod(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	f.expectNothing(t)
}

// TestFoundPodsAreReported once somebody listens, also if nothing becomes of them any more.
func TestFoundPodsAreReported(t *testing.T) {
	f := killed(t, shell("echo began; exec sleep 98763", corev1.RestartPolicyNever))
	f.awaitLog(t, "began")
	found, err := process.New(f.options)
	if err != nil {
		t.Fatal(err)
	}
	f.Provider = found
	t.Cleanup(func() { f.Close(0) })
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if status, err := f.GetPodStatus(t.Context(), "ns", "a"); err == nil && status.Phase == corev1.PodRunning {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the pod is not found")
		}
	}
	for len(f.reports) > 0 {
		<-f.reports // of the provider before
	}
	f.NotifyPods(t.Context(), func(pod *corev1.Pod) { f.reports <- pod })
	f.await(t, "the pod that was found", isPhase(corev1.PodRunning))
}

// expectNothing looks for what pods leave on the disk.
func (f *fixture) expectNothing(t *testing.T) {
	t.Helper()
	for _, folder := range []string{f.options.Folder, f.options.LogFolder} {
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			entries, err := os.ReadDir(folder)
			if err == nil && len(entries) == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s has %v, %v", folder, entries, err)
			}
		}
	}
}

// TestReusedNumber: a process that has the number of a supervisor that ended is left alone.
func TestReusedNumber(t *testing.T) {
	f := killed(t, shell("sleep 98763", corev1.RestartPolicyNever))
	f.awaitBegun(t)
	processes := f.processes(t)
	kill(t, processes[0])
	f.expectNoProcess(t)
	bystander := exec.Command("sleep", "98762")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = bystander.Process.Kill()
		_ = bystander.Wait()
	}()
	f.forge(t, processes[0], bystander.Process.Pid)
	f.open(t)
	t.Cleanup(func() { f.Close(0) })
	if _, err := f.GetPod(t.Context(), "ns", "a"); !errdefs.IsNotFound(err) {
		t.Errorf("the pod of a dead supervisor: %v", err)
	}
	f.expectNothing(t)
	if err := bystander.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the process of somebody else: %v", err)
	}
}

// TestKilledSupervisor: the kernel ends what it supervised, and a pod whose containers run once
// has failed.
func TestKilledSupervisor(t *testing.T) {
	f := newFixture(t, nil)
	f.run(t, shell("setsid sleep 98761 & sleep 98760", corev1.RestartPolicyNever))
	kill(t, f.processes(t)[0])
	ended := f.await(t, "the end", isPhase(corev1.PodFailed)).ContainerStatuses[0].State.Terminated
	if ended.ExitCode != 137 || ended.Signal != 9 {
		t.Errorf("ended with %v", ended)
	}
	f.expectNoProcess(t)
}

// TestRestartAfterKilledSupervisor: the containers run again as far as the restart policy says
// so, and a pod that waits for its next supervisor can be deleted.
func TestRestartAfterKilledSupervisor(t *testing.T) {
	f := newFixture(t, nil)
	pod := shell("echo began; sleep 98753", corev1.RestartPolicyOnFailure)
	pod.Spec.InitContainers = []corev1.Container{initContainer("before", "true")}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "short", Command: []string{"echo", "once"}})
	if err := f.CreatePod(t.Context(), pod.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	runs := func(restarts int32) func(*corev1.PodStatus) bool {
		return func(s *corev1.PodStatus) bool {
			main, short := s.ContainerStatuses[0], s.ContainerStatuses[1]
			return main.State.Running != nil && main.RestartCount == restarts && short.State.Terminated != nil
		}
	}
	f.await(t, "the pod that runs", runs(0))
	kill(t, f.processes(t)[0])
	status := f.await(t, "the pod that runs again", runs(1))
	if last := status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 137 || last.Signal != 9 {
		t.Errorf("main ended with %v", last)
	}
	if short := status.ContainerStatuses[1]; short.RestartCount != 0 || short.State.Terminated.ExitCode != 0 {
		t.Errorf("what had succeeded is %v", short)
	}
	if text, err := os.ReadFile(filepath.Join(f.logs, "ns_a_uid", "short", "0.log")); err != nil || strings.Count(string(text), "once") != 1 {
		t.Errorf("what had succeeded says %q, %v", text, err)
	}
	if before := status.InitContainerStatuses[0]; before.RestartCount != 1 || before.State.Terminated == nil {
		t.Errorf("the init container is %v", before)
	}
	kill(t, f.processes(t)[0])
	f.expectNoProcess(t)
	time.Sleep(200 * time.Millisecond) // the first pause is longer
	if left := f.processes(t); len(left) > 0 {
		t.Errorf("after the supervisor was killed twice, processes %v run without a pause", left)
	}
	if err := f.DeletePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	f.await(t, "the end", isPhase(corev1.PodFailed))
	if err := f.DeletePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	f.expectNothing(t)
	f.expectNoProcess(t)
}

// TestDamagedState: a pod of which nobody knows any more how it ended is lost, and may be created again.
func TestDamagedState(t *testing.T) {
	f := killed(t, shell("sleep 98752", corev1.RestartPolicyNever))
	f.awaitBegun(t)
	kill(t, f.processes(t)[0])
	f.expectNoProcess(t)
	if err := os.WriteFile(filepath.Join(f.options.Folder, "uid", "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.open(t)
	t.Cleanup(func() { f.Close(0) })
	if _, err := f.GetPod(t.Context(), "ns", "a"); !errdefs.IsNotFound(err) {
		t.Errorf("a pod whose state is damaged: %v", err)
	}
	f.expectNothing(t)
}

// TestEventsAreToldOnce: those that an earlier provider may have told are not told again.
func TestEventsAreToldOnce(t *testing.T) {
	pod := shell("sleep 98751", corev1.RestartPolicyNever)
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/false"}}},
		PeriodSeconds: 3600, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 1,
	}
	f := killed(t, pod)
	f.awaitState(t, "Readiness probe failed")
	recorder := record.NewFakeRecorder(1000)
	f.options.Recorder = recorder
	f.open(t)
	t.Cleanup(func() { f.Close(0) })
	f.await(t, "the pod that was found", isPhase(corev1.PodRunning))
	pod.DeletionGracePeriodSeconds = ptr.To[int64](0)
	if err := f.DeletePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	f.await(t, "the end", isPhase(corev1.PodFailed))
	const last = "Normal Killing Stopping container main"
	if event := <-recorder.Events; event != last || len(recorder.Events) > 0 {
		t.Errorf("told first: %s, and %d after it; want %s only", event, len(recorder.Events), last)
	}
}

// TestDeletedAtOnce: a pod that is deleted before its supervisor hears of anything ends like any other.
func TestDeletedAtOnce(t *testing.T) {
	for range 5 {
		f := newFixture(t, nil)
		pod := sleeping()
		pod.DeletionGracePeriodSeconds = ptr.To[int64](3600)
		if err := f.CreatePod(t.Context(), pod.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		if err := f.DeletePod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		f.await(t, "the end", isPhase(corev1.PodFailed))
		f.expectNoProcess(t)
	}
}

// awaitBegun waits until the supervisor of the pod a has written that its container runs.
func (f *fixture) awaitBegun(t *testing.T) {
	t.Helper()
	f.awaitState(t, `"running":{`)
}

// awaitState waits until the state that the supervisor of the pod a writes has a text.
func (f *fixture) awaitState(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(f.options.Folder, "uid", "state.json"))
		if err == nil && bytes.Contains(text, []byte(want)) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the supervisor does not write %s: %s, %v", want, text, err)
		}
	}
}

// forge changes the number in the record of the supervisor, which has a checksum.
func (f *fixture) forge(t *testing.T, from, to int) {
	t.Helper()
	path := filepath.Join(f.options.Folder, "uid", "supervisor.json")
	is, err := checkpoint.Read[map[string]any](path)
	if err != nil || is["pid"] != float64(from) {
		t.Fatalf("record %v, %v; want process %d", is, err, from)
	}
	is["pid"] = to
	if err := checkpoint.Write(path, is); err != nil {
		t.Fatal(err)
	}
}

// TestNothingStarted: what a provider leaves that is killed before it started a supervisor is
// removed.
func TestNothingStarted(t *testing.T) {
	f := newFixture(t, nil)
	f.Close(0)
	if err := os.Mkdir(filepath.Join(f.options.Folder, "uid-c"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.open(t)
	f.expectNothing(t)
}

// TestKilledBeforeItBegan: a provider that is killed when a supervisor is recorded and has not
// been told so leaves one that ends. The next provider does not have the pod, which is created
// again.
func TestKilledBeforeItBegan(t *testing.T) {
	f := killed(t, shell("sleep 98758", corev1.RestartPolicyNever))
	f.awaitBegun(t)
	old := f.processes(t)[0]
	if err := os.Remove(filepath.Join(f.options.Folder, "uid", "state.json")); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() { _ = syscall.Kill(old, syscall.SIGKILL) }) // as if it saw that nobody is there
	f.open(t)
	t.Cleanup(func() { f.Close(0) })
	if _, err := f.GetPod(t.Context(), "ns", "a"); !errdefs.IsNotFound(err) {
		t.Errorf("a pod that never began: %v", err)
	}
	f.run(t, shell("sleep 98757", corev1.RestartPolicyNever))
}

// TestCloseTakesNoPods: while a provider ends its pods, it takes no others.
func TestCloseTakesNoPods(t *testing.T) {
	f := newFixture(t, nil)
	pod := shell(`trap 'echo told to end' TERM; echo began; while :; do sleep 0.1; done`, corev1.RestartPolicyAlways)
	f.run(t, pod)
	f.awaitLog(t, "began")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		f.Close(time.Hour)
	}()
	f.awaitLog(t, "told to end")
	other := shell("echo other", corev1.RestartPolicyNever)
	other.Name, other.UID = "b", "uid-b"
	if err := f.CreatePod(t.Context(), other); err == nil || !strings.Contains(err.Error(), "pod ns/b: the provider is closed") {
		t.Errorf("another pod: %v", err)
	}
	select {
	case <-closed:
		t.Error("closed before the pod has ended")
	default:
	}
	pod.DeletionGracePeriodSeconds = ptr.To[int64](0)
	if err := f.DeletePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	<-closed
	f.expectNoProcess(t)
}
