// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/cdi"
	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/node"
	"github.com/dray-project/dray/agent/node/errdefs"
	"github.com/dray-project/dray/agent/provider/process"
)

var (
	_ node.PodLifecycleHandler = (*process.Provider)(nil)
	_ node.PodNotifier         = (*process.Provider)(nil)
)

func TestMain(m *testing.M) {
	process.Main()
	leakcheck.Main(m)
}

// patience is how long anything may take, on a machine that does other things.
const patience = 2 * time.Minute

// fixture is a provider with a folder of logs and one of CDI specs, whose containers have
// the device of a test.
type fixture struct {
	*process.Provider
	logs    string
	options process.Options
	reports chan *corev1.Pod
}

func newFixture(t *testing.T, edits *cdispec.ContainerEdits) *fixture {
	t.Helper()
	f := &fixture{logs: t.TempDir(), reports: make(chan *corev1.Pod, 1000)}
	options := process.Options{Folder: t.TempDir(), LogFolder: f.logs, CDIFolders: []string{t.TempDir()}}
	if edits != nil {
		files, err := cdi.Open(options.CDIFolders[0], "test")
		if err != nil {
			t.Fatal(err)
		}
		spec := &cdispec.Spec{Kind: "example.com/gpu", Devices: []cdispec.Device{{Name: "gpu-0", ContainerEdits: *edits}}}
		if err := files.Write("claim", spec); err != nil {
			t.Fatal(err)
		}
		options.Devices = func(context.Context, *corev1.Pod, string) ([]string, error) {
			return []string{"example.com/gpu=gpu-0"}, nil
		}
	}
	f.options = options
	f.open(t)
	t.Cleanup(func() { f.Close(0) })
	return f
}

// open begins a provider with the fixture's options.
func (f *fixture) open(t *testing.T) {
	t.Helper()
	var err error
	if f.Provider, err = process.New(f.options); err != nil {
		t.Fatal(err)
	}
	f.NotifyPods(t.Context(), func(pod *corev1.Pod) { f.reports <- pod })
}

// await returns the first report that the test waits for.
func (f *fixture) await(t *testing.T, what string, is func(*corev1.PodStatus) bool) *corev1.PodStatus {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case pod := <-f.reports:
			if is(&pod.Status) {
				return &pod.Status
			}
		case <-deadline:
			t.Fatalf("no report of %s", what)
		}
	}
}

func isPhase(phase corev1.PodPhase) func(*corev1.PodStatus) bool {
	return func(status *corev1.PodStatus) bool { return status.Phase == phase }
}

func (f *fixture) awaitLog(t *testing.T, want string) string {
	t.Helper()
	path := filepath.Join(f.logs, "ns_a_uid", "main", "0.log")
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		content, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(content), want) {
			return string(content)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has %q, want %q in it", path, content, want)
		}
	}
}

func shell(script string, policy corev1.RestartPolicy) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "uid"},
		Spec: corev1.PodSpec{NodeName: "node-1", RestartPolicy: policy, Containers: []corev1.Container{{
			Name: "main", Command: []string{"/bin/sh", "-c"}, Args: []string{script},
		}}},
	}
}

func TestAPodPrintsItsDevice(t *testing.T) {
	f := newFixture(t, &cdispec.ContainerEdits{
		Env:         []string{"GPU=gpu-0"},
		Mounts:      []*cdispec.Mount{{HostPath: "/usr/lib", ContainerPath: "/usr/lib"}},
		DeviceNodes: []*cdispec.DeviceNode{{Path: "/dev/null"}},
	})
	pod := shell(`echo "$POD on $NODE has $GPU, $GREETING"`, corev1.RestartPolicyNever)
	pod.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "GREETING", Value: "hello"},
		{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
	}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}
	if err := f.CreatePod(t.Context(), pod.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	status := f.await(t, "success", isPhase(corev1.PodSucceeded))
	if ended := status.ContainerStatuses[0].State.Terminated; ended == nil || ended.ExitCode != 0 || ended.Reason != "Completed" {
		t.Errorf("the container is %v", status.ContainerStatuses[0].State)
	}
	f.awaitLog(t, "a on node-1 has gpu-0, hello\n")
	asked, err := f.GetPodStatus(t.Context(), pod.Namespace, pod.Name)
	if got, getErr := f.GetPod(t.Context(), pod.Namespace, pod.Name); errors.Join(err, getErr) != nil ||
		got.UID != pod.UID || got.Status.Phase != corev1.PodSucceeded || !reflect.DeepEqual(&got.Status, asked) {
		t.Errorf("the provider gives %v and the status %v, %v, %v", got, asked, getErr, err)
	}
	if _, err := f.GetPod(t.Context(), pod.Namespace, "other"); !errdefs.IsNotFound(err) {
		t.Errorf("a pod that is not there: %v", err)
	}
}

func TestExitCodes(t *testing.T) {
	for script, want := range map[string]struct{ code, signal int32 }{
		"exit 7": {7, 0}, "kill -KILL $$$$": {137, 9}, "exec /does/not/exist": {127, 0},
	} {
		f := newFixture(t, nil)
		if err := f.CreatePod(t.Context(), shell(script, corev1.RestartPolicyNever)); err != nil {
			t.Fatal(err)
		}
		ended := f.await(t, "failure", isPhase(corev1.PodFailed)).ContainerStatuses[0].State.Terminated
		if ended.ExitCode != want.code || ended.Signal != want.signal {
			t.Errorf("%s: exit code %d, signal %d; want %v", script, ended.ExitCode, ended.Signal, want)
		}
	}
}

// TestTerminationMessage: the end of the log is the message of a container that fails, if its policy says so.
func TestTerminationMessage(t *testing.T) {
	for _, c := range []struct {
		script string
		policy corev1.TerminationMessagePolicy
		phase  corev1.PodPhase
		want   string
	}{
		{"echo out; sleep 0.1; echo why >&2; exit 7", corev1.TerminationMessageFallbackToLogsOnError, corev1.PodFailed, "out\nwhy\n"},
		{"echo out; exit 7", corev1.TerminationMessageReadFile, corev1.PodFailed, ""},
		{"echo out", corev1.TerminationMessageFallbackToLogsOnError, corev1.PodSucceeded, ""},
	} {
		f := newFixture(t, nil)
		pod := shell(c.script, corev1.RestartPolicyNever)
		pod.Spec.Containers[0].TerminationMessagePolicy = c.policy
		if err := f.CreatePod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		ended := f.await(t, string(c.phase), isPhase(c.phase)).ContainerStatuses[0].State.Terminated
		if ended.Message != c.want {
			t.Errorf("%s with %s: message %q, want %q", c.script, c.policy, ended.Message, c.want)
		}
	}
}

// TestStartErrors: the status and an Event say what does not exist.
func TestStartErrors(t *testing.T) {
	for want, change := range map[string]func(*corev1.Container){
		"/does/not/exist":                          func(c *corev1.Container) { c.Command = []string{"/does/not/exist"} },
		"workingDir: /no/folder: is not a folder":  func(c *corev1.Container) { c.WorkingDir = "/no/folder" },
		"workingDir: /etc/passwd: is not a folder": func(c *corev1.Container) { c.WorkingDir = "/etc/passwd" },
		`"not-there": executable file not found`:   func(c *corev1.Container) { c.Command = []string{"not-there"} },
		"/etc/passwd: permission denied":           func(c *corev1.Container) { c.Command = []string{"/etc/passwd"} },
	} {
		f, recorder := withEvents(t)
		pod := shell("", corev1.RestartPolicyNever)
		change(&pod.Spec.Containers[0])
		if err := f.CreatePod(t.Context(), pod.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		ended := f.await(t, "failure", isPhase(corev1.PodFailed)).ContainerStatuses[0].State.Terminated
		if ended.Reason != "StartError" || ended.ExitCode != 128 || !strings.Contains(ended.Message, want) {
			t.Errorf("the container ended with %v, want %q", ended, want)
		}
		awaitEvent(t, recorder, "Warning Failed Error: "+ended.Message)
	}
}

// TestPathOfThePod is where its commands are looked for.
func TestPathOfThePod(t *testing.T) {
	folder := publicFolder(t)
	if err := os.WriteFile(filepath.Join(folder, "tool"), []byte("#!/bin/sh\nexit 6\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(folder, "tool"), 0o755); err != nil { //nolint:gosec // pods are nobody
		t.Fatal(err)
	}
	f := newFixture(t, nil)
	pod := shell("", corev1.RestartPolicyNever)
	pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Args = []string{"tool"}, nil
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PATH", Value: folder + ":/bin"}}
	if err := f.CreatePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if ended := f.await(t, "the end", isPhase(corev1.PodFailed)).ContainerStatuses[0].State.Terminated; ended.ExitCode != 6 {
		t.Errorf("ended with %v", ended)
	}
}

// TestRestart deletes the pod while it waits for its next start.
func TestRestart(t *testing.T) {
	f, recorder := withEvents(t)
	pod := shell("exit 3", corev1.RestartPolicyAlways)
	if err := f.CreatePod(t.Context(), pod.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	status := f.await(t, "the wait for a restart", func(s *corev1.PodStatus) bool {
		return s.ContainerStatuses[0].State.Waiting != nil && s.ContainerStatuses[0].RestartCount == 1 // the first one is at once
	})
	is := status.ContainerStatuses[0]
	if status.Phase != corev1.PodRunning || is.LastTerminationState.Terminated.ExitCode != 3 || is.State.Waiting.Message != "back-off 10s restarting failed container=main pod=a_ns(uid)" {
		t.Errorf("status %v", status)
	}
	awaitEvent(t, recorder, "Warning BackOff Back-off restarting failed container main in pod a_ns(uid)")
	if err := f.DeletePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	// It waits for nothing any more, and is what it was when it ran last.
	if is := f.await(t, "the end", isPhase(corev1.PodFailed)).ContainerStatuses[0]; is.State.Terminated == nil || is.State.Terminated.ExitCode != 3 || is.RestartCount != 1 {
		t.Errorf("in the end: %v", is)
	}
}

// TestGrace has a process that heeds SIGTERM.
func TestGrace(t *testing.T) {
	f := newFixture(t, nil)
	pod := shell(`trap 'echo told to end; exit 4' TERM; echo began; while :; do sleep 1; done`, corev1.RestartPolicyAlways)
	if err := f.CreatePod(t.Context(), pod.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	f.awaitLog(t, "began")
	pod.DeletionGracePeriodSeconds = ptr.To[int64](3600)
	if err := f.DeletePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if ended := f.await(t, "the end", isPhase(corev1.PodFailed)).ContainerStatuses[0].State.Terminated; ended.ExitCode != 4 {
		t.Errorf("ended with %v", ended)
	}
	f.awaitLog(t, "told to end")
	if _, err := f.GetPod(t.Context(), "ns", "a"); err != nil {
		t.Errorf("the pod was forgotten before anybody asked: %v", err)
	}
	if err := f.DeletePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := f.DeletePod(t.Context(), pod); !errdefs.IsNotFound(err) {
		t.Errorf("the pod is still known: %v", err)
	}
}

// TestSignalOfTheEnd gets to the command, and not to its children: a command may let them finish.
func TestSignalOfTheEnd(t *testing.T) {
	f, recorder := withEvents(t)
	pod := shell(`(trap 'echo the child was told' TERM; while :; do sleep 0.1; done) & trap 'echo told; sleep 1; exit 4' TERM; echo began; while :; do sleep 0.1; done`, corev1.RestartPolicyNever)
	if err := f.CreatePod(t.Context(), pod.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	f.awaitLog(t, "began")
	if err := f.DeletePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if ended := f.await(t, "the end", isPhase(corev1.PodFailed)).ContainerStatuses[0].State.Terminated; ended.ExitCode != 4 {
		t.Errorf("ended with %v", ended)
	}
	if text := f.awaitLog(t, "stdout F told\n"); strings.Contains(text, "child") {
		t.Errorf("the log has %q", text)
	}
	awaitEvent(t, recorder, "Normal Started Container started")
	awaitEvent(t, recorder, "Normal Killing Stopping container main")
}

// TestKill has a process and a child that do not heed SIGTERM.
func TestKill(t *testing.T) {
	f := newFixture(t, nil)
	pod := shell(`trap '' TERM; (while :; do sleep 1; done) & echo child $!; wait`, corev1.RestartPolicyNever)
	if err := f.CreatePod(t.Context(), pod.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	f.awaitLog(t, "child")
	pod.DeletionGracePeriodSeconds = ptr.To[int64](0)
	if len(f.processes(t)) < 4 {
		t.Fatalf("processes %v: not the supervisor, the init, the shell and its children", f.processes(t))
	}
	if err := f.DeletePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if ended := f.await(t, "the end", isPhase(corev1.PodFailed)).ContainerStatuses[0].State.Terminated; ended.Signal != 9 {
		t.Errorf("ended with %v", ended)
	}
	f.expectNoProcess(t)
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := f.GetPod(t.Context(), "ns", "a"); errdefs.IsNotFound(err) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a pod without grace is still known")
		}
	}
	f.expectNothing(t)
}

func TestRefusals(t *testing.T) {
	main := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { change(&pod.Spec.Containers[0]) }
	}
	for want, c := range map[string]struct {
		change func(*corev1.Pod)
		edits  *cdispec.ContainerEdits
	}{
		"command: is required": {change: main(func(c *corev1.Container) { c.Command = nil })},
		"spec.containers[main].env[SECRET].valueFrom.secretKeyRef": {change: main(func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}}}
		})},
		"spec.containers[main].resources.limits": {change: main(func(c *corev1.Container) {
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")}
		})},
		"spec.containers[main].volumeMounts[v].mountPath: /does/not/exist": {change: func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/does/not/exist"}}
		}},
		"mount of /a to /b":            {edits: &cdispec.ContainerEdits{Mounts: []*cdispec.Mount{{HostPath: "/a", ContainerPath: "/b"}}}},
		"device node /dev/a as /dev/b": {edits: &cdispec.ContainerEdits{DeviceNodes: []*cdispec.DeviceNode{{HostPath: "/dev/a", Path: "/dev/b"}}}},
		"hook createRuntime":           {edits: &cdispec.ContainerEdits{Hooks: []*cdispec.Hook{{HookName: "createRuntime", Path: "/bin/true"}}}},
		"network device eth1":          {edits: &cdispec.ContainerEdits{NetDevices: []*cdispec.LinuxNetDevice{{HostInterfaceName: "eth1", Name: "eth0"}}}},
		"cache allocation":             {edits: &cdispec.ContainerEdits{IntelRdt: &cdispec.IntelRdt{ClosID: "c"}}},
		`"../b": is not a name`:        {change: func(pod *corev1.Pod) { pod.Name = "../b" }},
		`"": is not a name`:            {change: func(pod *corev1.Pod) { pod.UID = "" }},
	} {
		f := newFixture(t, c.edits)
		pod := shell("true", corev1.RestartPolicyNever)
		if c.change != nil {
			c.change(pod)
		}
		if err := f.CreatePod(t.Context(), pod.DeepCopy()); !errdefs.IsInvalidInput(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// breakSpec writes a CDI spec of a version that does not exist, and returns its path.
func breakSpec(t *testing.T, folder string) string {
	t.Helper()
	path := filepath.Join(folder, "other.json")
	if err := os.WriteFile(path, []byte(`{"cdiVersion": "99.0.0", "kind": "example.com/other", "devices": [{"name": "one"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBrokenSpec matters only to pods that want its devices.
func TestBrokenSpec(t *testing.T) {
	f := newFixture(t, &cdispec.ContainerEdits{Env: []string{"GPU=gpu-0"}})
	breakSpec(t, f.options.CDIFolders[0])
	if err := f.CreatePod(t.Context(), shell("echo has $GPU", corev1.RestartPolicyNever)); err != nil {
		t.Fatal(err)
	}
	f.await(t, "success", isPhase(corev1.PodSucceeded))
	f.awaitLog(t, "has gpu-0\n")
}

// TestAMissingDevice may appear later. The error names specs that cannot be read.
func TestAMissingDevice(t *testing.T) {
	folder := t.TempDir()
	broken := breakSpec(t, folder)
	provider, err := process.New(process.Options{Folder: t.TempDir(), LogFolder: t.TempDir(), CDIFolders: []string{folder},
		Devices: func(context.Context, *corev1.Pod, string) ([]string, error) {
			return []string{"example.com/gpu=gone"}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Close(0)
	err = provider.CreatePod(t.Context(), shell("true", corev1.RestartPolicyNever))
	if err == nil || errdefs.IsInvalidInput(err) || !strings.Contains(err.Error(), "example.com/gpu=gone") || !strings.Contains(err.Error(), broken) {
		t.Errorf("got %v", err)
	}
}

func TestNewRequiresAFolder(t *testing.T) {
	if _, err := process.New(process.Options{}); !errdefs.IsInvalidInput(err) {
		t.Errorf("got %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := process.New(process.Options{Folder: file, LogFolder: t.TempDir()}); err == nil || !strings.HasPrefix(err.Error(), "process provider: ") {
		t.Errorf("a file in the place of the folder: %v", err)
	}
}
