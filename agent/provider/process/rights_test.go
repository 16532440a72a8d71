// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/node/errdefs"
)

const none = "0000000000000000" // capabilities

// isRoot is false where only what TestWithoutRoot tests can be tested.
func isRoot(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Log("this is for root")
		return false
	}
	return true
}

// run creates a pod and returns its status when it runs.
func (f *fixture) run(t *testing.T, pod *corev1.Pod) *corev1.PodStatus {
	t.Helper()
	if err := f.CreatePod(t.Context(), pod.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	return f.await(t, "the pod that runs", func(s *corev1.PodStatus) bool {
		return s.ContainerStatuses[0].State.Running != nil || s.ContainerStatuses[0].State.Terminated != nil
	})
}

// sleeping is a pod that runs, and is its command from the beginning.
func sleeping() *corev1.Pod {
	pod := shell("", corev1.RestartPolicyNever)
	pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Args = []string{"sleep", "600"}, nil
	return pod
}

// TestRights looks at what a pod of a restricted namespace has.
func TestRights(t *testing.T) {
	if !isRoot(t) {
		return
	}
	t.Setenv("KUBECONFIG", "admin.kubeconfig")
	t.Setenv("SECRET_TOKEN", "of the agent")
	left, err := unix.Open("/dev/null", unix.O_RDONLY, 0) // such as by whoever started the agent
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(left) }()
	f := newFixture(t, &cdispec.ContainerEdits{Env: []string{"GPU=gpu-0"}, AdditionalGIDs: []uint32{44}})
	pod := sleeping()
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](1001), FSGroup: ptr.To[int64](1234), SupplementalGroups: []int64{99},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "GREETING", Value: "hello"}}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		RunAsUser: ptr.To[int64](65533), RunAsNonRoot: ptr.To(true), AllowPrivilegeEscalation: ptr.To(false),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	running := f.run(t, pod)
	pid := commandOf(t, running)
	status := statusOf(t, pid)
	got := make(map[string]string)
	for _, name := range []string{"Name", "Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		got[name] = status[name]
	}
	want := map[string]string{
		"Name": "sleep", "Uid": "65533 65533 65533 65533", "Gid": "1001 1001 1001 1001", "Groups": "44 99 1234",
		"NoNewPrivs": "1", "Seccomp": "2", "CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	variables := []string{
		"GPU=gpu-0", "GREETING=hello", "HOME=/", "HOSTNAME=a", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
	if diff := cmp.Diff(variables, environmentOf(t, pid)); diff != "" {
		t.Error(diff)
	}
	for _, pid := range f.processes(t) {
		if environment := environmentOf(t, pid); strings.Contains(fmt.Sprint(environment), "of the agent") || strings.Contains(fmt.Sprint(environment), "kubeconfig") {
			t.Errorf("process %d has the environment %v", pid, environment)
		}
	}
	for _, kind := range []string{"pid", "net", "ipc", "uts", "mnt"} {
		if own(t, pid, kind) == own(t, os.Getpid(), kind) {
			t.Errorf("the process shares the %s namespace of the agent", kind)
		}
	}
	if files := filesOf(t, pid); !slices.Equal(files, []string{"0", "1", "2"}) {
		t.Errorf("the process has the files %v open", files)
	}
	session, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range f.processes(t) {
		if of, err := unix.Getsid(pid); err != nil || of == session {
			t.Errorf("process %d is in the session %d of the agent: %v", pid, of, err)
		}
	}
}

// filesOf are the numbers of the files that a process has open.
func filesOf(t *testing.T, pid int) []string {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, entry := range entries {
		out = append(out, entry.Name())
	}
	return out
}

// TestInheritableCapabilities of an agent are not those of its pods.
func TestInheritableCapabilities(t *testing.T) {
	if !isRoot(t) {
		return
	}
	f := newFixture(t, nil)
	// This thread starts the pod, and ends with the goroutine.
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var sets [2]unix.CapUserData
		err := unix.Capget(&header, &sets[0])
		if err == nil {
			sets[0].Inheritable = 1 << unix.CAP_NET_RAW
			err = unix.Capset(&header, &sets[0])
		}
		if err == nil {
			err = f.CreatePod(t.Context(), sleeping())
		}
		started <- err
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	running := f.await(t, "the pod that runs", func(s *corev1.PodStatus) bool { return s.ContainerStatuses[0].State.Running != nil })
	if got := statusOf(t, f.processes(t)[0])["CapInh"]; got == none {
		t.Error("the supervisor inherits nothing that could be taken")
	}
	if got := statusOf(t, commandOf(t, running))["CapInh"]; got != none {
		t.Errorf("the process has the inheritable capabilities %s", got)
	}
}

// TestUsers: the container's user and group count before the pod's, and what is no number of a user
// is refused.
func TestUsers(t *testing.T) {
	if !isRoot(t) {
		return
	}
	f := newFixture(t, nil)
	pod := sleeping()
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](7), RunAsGroup: ptr.To[int64](8), RunAsNonRoot: ptr.To(false)}
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](9), RunAsGroup: ptr.To[int64](10)}
	if status := statusOf(t, commandOf(t, f.run(t, pod))); status["Uid"] != "9 9 9 9" || status["Gid"] != "10 10 10 10" {
		t.Errorf("user %s, group %s", status["Uid"], status["Gid"])
	}
	for _, user := range []int64{-1, 1 << 31, 1 << 32} {
		pod := shell("true", corev1.RestartPolicyNever)
		pod.Name, pod.UID = "b", "uid-b"
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &user}
		if err := f.CreatePod(t.Context(), pod); !errdefs.IsInvalidInput(err) || !strings.Contains(err.Error(), "is not the number of a user") {
			t.Errorf("user %d: got %v", user, err)
		}
	}
}

func own(t *testing.T, pid int, kind string) string {
	t.Helper()
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// TestNobody: a pod that names no user is not root.
func TestNobody(t *testing.T) {
	if !isRoot(t) {
		return
	}
	f := newFixture(t, nil)
	status := statusOf(t, commandOf(t, f.run(t, sleeping())))
	if status["Uid"] != "65534 65534 65534 65534" || status["Gid"] != "65534 65534 65534 65534" || status["Groups"] != "" {
		t.Errorf("user %s, group %s, groups %s", status["Uid"], status["Gid"], status["Groups"])
	}
}

// TestRoot is refused, but for providers that allow it; also then there are no capabilities.
func TestRoot(t *testing.T) {
	if !isRoot(t) {
		return
	}
	f := newFixture(t, nil)
	root := map[string]func(*corev1.PodSecurityContext){
		"securityContext.runAsUser: 0":  func(c *corev1.PodSecurityContext) { c.RunAsUser = ptr.To[int64](0) },
		"securityContext.runAsGroup: 0": func(c *corev1.PodSecurityContext) { c.RunAsGroup = ptr.To[int64](0) },
		"supplementalGroups":            func(c *corev1.PodSecurityContext) { c.SupplementalGroups = []int64{7, 0} },
		"fsGroup":                       func(c *corev1.PodSecurityContext) { c.FSGroup = ptr.To[int64](0) },
	}
	for want, change := range root {
		pod := shell("true", corev1.RestartPolicyNever)
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
		change(pod.Spec.SecurityContext)
		if err := f.CreatePod(t.Context(), pod); !errdefs.IsInvalidInput(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	device := newFixture(t, &cdispec.ContainerEdits{AdditionalGIDs: []uint32{0}})
	if err := device.CreatePod(t.Context(), shell("true", corev1.RestartPolicyNever)); !errdefs.IsInvalidInput(err) {
		t.Errorf("the group 0 of a device: got %v", err)
	}
	f.Close(0)
	f.options.AllowRoot = true
	f.open(t)
	pod := sleeping()
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](0), RunAsNonRoot: ptr.To(true)}
	if err := f.CreatePod(t.Context(), pod.DeepCopy()); !errdefs.IsInvalidInput(err) || !strings.Contains(err.Error(), "runAsNonRoot") {
		t.Errorf("got %v", err)
	}
	pod.Spec.SecurityContext.RunAsNonRoot = nil
	status := statusOf(t, commandOf(t, f.run(t, pod)))
	if status["Uid"] != "0 0 0 0" || status["CapEff"] != none || status["CapBnd"] != none || status["CapPrm"] != none || status["NoNewPrivs"] != "1" {
		t.Errorf("status %v", status)
	}
}

// TestDenied: what a process is not to do fails, and what it may do does not.
func TestDenied(t *testing.T) {
	f := newFixture(t, nil)
	pod := shell(`
		unshare -U true 2>/dev/null && echo made a user namespace
		mount -t tmpfs none /mnt 2>/dev/null && echo mounted
		kill -KILL 1 2>/dev/null # the init stays
		ls /proc | grep -c '^[0-9]' | { read n; test $n -gt 8 && echo sees $n processes; }
		cat /proc/net/dev | grep -v lo: | grep -q : && echo has a network
		echo x > /dev/shm/x || echo has no shared memory
		(echo $(echo one; echo two) | cat) || echo cannot fork
		cat /sys/class/net/lo/flags /proc/sys/kernel/hostname
		exit 0`, corev1.RestartPolicyNever)
	pod.Spec.Hostname = "host-of-a"
	if status := f.run(t, pod); status.ContainerStatuses[0].State.Terminated == nil {
		f.await(t, "success", isPhase(corev1.PodSucceeded))
	}
	f.awaitLog(t, "host-of-a")
	text, err := os.ReadFile(f.logs + "/ns_a_uid/main/0.log")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.Join(strings.Fields(line)[3:], " "))
	}
	if lines[len(lines)-1] != "host-of-a" || lines[0] != "one two" || len(lines) != 3 {
		t.Errorf("the pod says %q", lines)
	}
}

// publicFolder is one in which everybody may write. t.TempDir is below one that nobody else
// may enter.
func publicFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "pods")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(folder, 0o777); err != nil { //nolint:gosec // that is what it is for
		t.Fatal(err)
	}
	return folder
}

// TestReadOnly: readOnlyRootFilesystem is honoured.
func TestReadOnly(t *testing.T) {
	folder := publicFolder(t)
	script := fmt.Sprintf("touch %s/file && exit 7; echo x > /dev/shm/x && echo x > /dev/null", folder)
	for readOnly, code := range map[bool]int32{false: 7, true: 0} {
		t.Run(fmt.Sprint(readOnly), func(t *testing.T) {
			f := newFixture(t, nil) // which hears of no other pod
			pod := shell(script, corev1.RestartPolicyNever)
			pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: &readOnly}
			if err := f.CreatePod(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			ended := f.await(t, "the end", func(s *corev1.PodStatus) bool {
				return s.Phase == corev1.PodFailed || s.Phase == corev1.PodSucceeded
			}).ContainerStatuses[0].State.Terminated
			if ended.ExitCode != code {
				t.Errorf("exit code %d, want %d: %s", ended.ExitCode, code, ended.Message)
			}
		})
	}
}

// TestHostNetwork: a pod that asks for the machine's network has it.
func TestHostNetwork(t *testing.T) {
	if !isRoot(t) {
		return
	}
	f := newFixture(t, nil)
	pod := sleeping()
	pod.Spec.HostNetwork = true
	pid := commandOf(t, f.run(t, pod))
	if own(t, pid, "net") != own(t, os.Getpid(), "net") {
		t.Error("the pod has a network of its own")
	}
}

// TestWithoutRoot runs the tests of this package as another user, in user namespaces.
func TestWithoutRoot(t *testing.T) {
	if !isRoot(t) {
		return
	}
	const user = 65534
	temporary := publicFolder(t)
	tests := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^Test(APodPrintsItsDevice|ExitCodes|Restart|Grace|Kill|Denied|ReadOnly|Adoption|UserOfTheAgent)$", "-test.v", "-test.timeout=5m")
	tests.Dir, tests.Env = "/", []string{"TMPDIR=" + temporary, "PATH=" + os.Getenv("PATH")}
	tests.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	output, err := tests.CombinedOutput()
	if err != nil || strings.Count(string(output), "--- PASS") < 8 || strings.Contains(string(output), "for root") {
		t.Errorf("%v: %s", err, output)
	}
}

// TestUserOfTheAgent: without root, processes have the agent's user, and pods that want
// another one are refused.
func TestUserOfTheAgent(t *testing.T) {
	if os.Geteuid() == 0 {
		return // TestWithoutRoot runs it
	}
	f := newFixture(t, nil)
	for want, context := range map[string]*corev1.PodSecurityContext{
		"runAsUser: 1000":  {RunAsUser: ptr.To[int64](1000)},
		"runAsUser: 0":     {RunAsUser: ptr.To[int64](0)},
		"runAsGroup: 1000": {RunAsGroup: ptr.To[int64](1000)},
		"group 7":          {SupplementalGroups: []int64{7}},
		"group 8":          {FSGroup: ptr.To[int64](8)},
	} {
		pod := shell("true", corev1.RestartPolicyNever)
		pod.Spec.SecurityContext = context
		if err := f.CreatePod(t.Context(), pod); !errdefs.IsInvalidInput(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	pid := commandOf(t, f.run(t, sleeping()))
	status := statusOf(t, pid)
	if !strings.HasPrefix(status["Uid"], fmt.Sprint(os.Geteuid(), " ")) || status["CapEff"] != none || status["CapPrm"] != none ||
		status["CapInh"] != none || status["CapAmb"] != none || status["CapBnd"] != none || status["NoNewPrivs"] != "1" || status["Seccomp"] != "2" {
		t.Errorf("status %v", status)
	}
	for _, kind := range []string{"user", "pid", "net", "ipc", "uts", "mnt"} {
		if own(t, pid, kind) == own(t, os.Getpid(), kind) {
			t.Errorf("the process shares the %s namespace of the agent", kind)
		}
	}
}
