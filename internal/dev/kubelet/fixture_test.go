// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/internal/dev/kubelet"
)

// binaries is where make puts etcd, kube-apiserver, dray-agent and kubelet-parts.
const binaries = "../../../bin"

// patience is how long is waited for what must happen, on machines that have other things
// to do.
const patience = 3 * time.Minute

const (
	namespace = "default"
	driver    = "gpu.example.com"
	resource  = driver + "/gpu"
)

// hardware is what the agents have: four GPUs.
const hardware = `groups:
- driver: gpu.example.com
  name: gpu
  count: 4
  type: gpu
  attributes: {model: {string: H200}}
  env: ["GPU_{device}=given"]
`

var (
	plane  *controlplane.ControlPlane
	client kubernetes.Interface
	nodes  atomic.Int32
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if err := startPlane(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		if code != 0 {
			plane.KeepFolder()
			fmt.Fprintln(os.Stderr, "logs:", plane.Folder())
		}
		if err := plane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

func startPlane() error {
	programs, err := controlplane.BinariesIn(binaries)
	for _, name := range []string{"dray-agent", "kubelet-parts"} {
		_, missing := os.Stat(filepath.Join(binaries, name))
		err = errors.Join(err, missing)
	}
	if err != nil {
		return fmt.Errorf("%w\nrun make conformance-kubelet, which builds what is needed", err)
	}
	if plane, err = controlplane.Start(context.Background(), controlplane.Options{Binaries: programs, APIServerOnly: true}); err != nil {
		return err
	}
	if client, err = kubernetes.NewForConfig(plane.Config()); err != nil {
		return err
	}
	// No controller makes it here, and there are no pods without.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err = client.CoreV1().ServiceAccounts(namespace).Create(context.Background(), account, metav1.CreateOptions{})
	return err
}

// machine is a node with an agent and the parts of kubelet, each of which may be restarted.
type machine struct {
	*testing.T
	node, dir, cdi string
	agent          *controlplane.Program
	kubelet        *parts
	running        map[types.UID]*corev1.Pod // what the next kubelet knows from the API server
}

// newNode starts kubelet on a node of its own, without an agent.
func newNode(t *testing.T) *machine {
	t.Helper()
	t.Parallel()
	dir, err := os.MkdirTemp("", "kubelet") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &machine{T: t, node: fmt.Sprintf("node-%d", nodes.Add(1)), dir: dir, cdi: filepath.Join(dir, "cdi"), running: make(map[types.UID]*corev1.Pod)}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.node}}
	if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	m.startKubelet()
	m.tell(kubelet.Request{Operation: kubelet.Ready})
	return m
}

// newMachine starts agent and kubelet on a node of their own, and waits for the devices.
func newMachine(t *testing.T) *machine {
	t.Helper()
	m := newNode(t)
	if err := os.WriteFile(filepath.Join(m.dir, "hardware.yaml"), []byte(hardware), 0o600); err != nil {
		t.Fatal(err)
	}
	m.startAgent()
	m.until("the devices are published", func() bool {
		slices, err := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + m.node})
		return err == nil && len(slices.Items) > 0
	})
	m.awaitCapacity(4)
	return m
}

func (m *machine) startAgent() {
	m.Helper()
	m.launchAgent(filepath.Join(binaries, "dray-agent"), "run",
		"--simulate="+filepath.Join(m.dir, "hardware.yaml"), "--node-name="+m.node, "--kubeconfig="+plane.Kubeconfig(),
		"--kubelet-dir="+m.dir, "--cdi-dir="+m.cdi, "--listen=")
}

func (m *machine) launchAgent(program string, arguments ...string) {
	m.Helper()
	agent, err := plane.Launch("agent-"+m.node, program, arguments...)
	if err != nil {
		m.Fatal(err)
	}
	m.agent = agent
	m.Cleanup(func() { _ = agent.Kill() })
}

// until waits for what must become true.
func (m *machine) until(what string, ask func() bool) {
	m.Helper()
	for deadline := time.Now().Add(patience); !ask(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.Fatalf("not within %v: %s", patience, what)
		}
		if m.agent == nil { // there is none
			continue
		}
		if err := m.agent.Err(); err != nil {
			m.Fatal(err)
		}
	}
}

func (m *machine) awaitCapacity(want int64) {
	m.Helper()
	m.until(fmt.Sprintf("kubelet has %d %s", want, resource), func() bool {
		have := m.tell(kubelet.Request{Operation: kubelet.Capacity}).Allocatable[resource]
		return have.Value() == want
	})
}

// parts is a process of kubelet-parts.
type parts struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

func (m *machine) startKubelet() {
	m.Helper()
	log, err := os.OpenFile(filepath.Join(plane.Folder(), "kubelet-"+m.node+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	command := exec.Command(filepath.Join(binaries, "kubelet-parts"), "--dir="+m.dir, "--node="+m.node, "--kubeconfig="+plane.Kubeconfig())
	command.Stderr = log
	in, err := command.StdinPipe()
	if err != nil {
		m.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		m.Fatal(err)
	}
	if err := command.Start(); err != nil {
		m.Fatal(err)
	}
	p := &parts{command: command, in: in, out: bufio.NewScanner(out)}
	p.out.Buffer(nil, 4<<20)
	m.Cleanup(p.kill)
	m.kubelet = p
}

// kill ends a kubelet where it stands.
func (p *parts) kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}

// restartKubelet kills kubelet and starts another one. It knows its pods only when it is told.
func (m *machine) restartKubelet() {
	m.Helper()
	m.kubelet.kill()
	m.startKubelet()
}

// reboot ends kubelet and agent, and starts both without what is in memory: /var/run/cdi is.
func (m *machine) reboot() {
	m.Helper()
	m.kubelet.kill()
	if err := m.agent.Kill(); err != nil {
		m.Fatal(err)
	}
	if err := os.RemoveAll(m.cdi); err != nil {
		m.Fatal(err)
	}
	m.startKubelet()
	m.startAgent()
	m.tellPods()
}

// tellPods is what a kubelet learns of the API server after its start.
func (m *machine) tellPods() {
	m.Helper()
	for _, pod := range m.running {
		m.tell(kubelet.Request{Operation: kubelet.Know, Pod: pod})
	}
	m.tell(kubelet.Request{Operation: kubelet.Ready})
}

func (m *machine) tell(request kubelet.Request) kubelet.Answer {
	m.Helper()
	line, err := json.Marshal(request)
	if err != nil {
		m.Fatal(err)
	}
	if _, err := m.kubelet.in.Write(append(line, '\n')); err != nil {
		m.Fatal(err)
	}
	if !m.kubelet.out.Scan() {
		m.Fatalf("kubelet-parts ended: %v", m.kubelet.out.Err())
	}
	var answer kubelet.Answer
	if err := json.Unmarshal(m.kubelet.out.Bytes(), &answer); err != nil {
		m.Fatal(err)
	}
	return answer
}

// admit has kubelet admit a pod, once.
func (m *machine) admit(pod *corev1.Pod) kubelet.Answer {
	m.Helper()
	answer := m.tell(kubelet.Request{Operation: kubelet.Admit, Pod: pod})
	if answer.Error == "" {
		m.running[pod.UID] = pod
	}
	if answer.Error == "" || strings.HasPrefix(answer.Error, "prepare: ") { // kubelet accepted it, and tries again
		m.started(pod)
	}
	return answer
}

// started says in the pod's status that kubelet accepted it, which kubelet's status manager does otherwise.
func (m *machine) started(pod *corev1.Pod) {
	m.Helper()
	patch := fmt.Appendf(nil, `{"status": {"phase": "Running", "startTime": %q}}`, time.Now().UTC().Format(time.RFC3339))
	if _, err := client.CoreV1().Pods(namespace).Patch(m.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		m.Fatal(err)
	}
}

// mustAdmit has kubelet admit a pod. It tries again, as kubelet does.
func (m *machine) mustAdmit(pod *corev1.Pod) kubelet.Answer {
	m.Helper()
	var answer kubelet.Answer
	m.until("pod "+pod.Name+" is admitted", func() bool {
		answer = m.admit(pod)
		return answer.Error == ""
	})
	return answer
}

// mustRefuse has kubelet try to admit a pod for so long. The driver must refuse each time, and
// name the device that another pod has. Before the driver answers, kubelet may know it no longer, or not yet: it looks for
// drivers once a second.
func (m *machine) mustRefuse(pod *corev1.Pod, device string, duration time.Duration) {
	m.Helper()
	answers := func() bool {
		answer := m.admit(pod)
		if answer.Error == "" {
			m.Fatalf("another pod has %s, and a claim for it is answered %+v", device, answer)
		}
		return strings.Contains(answer.Error, device)
	}
	m.until("the driver answers that another pod has "+device, answers)
	for deadline := time.Now().Add(duration); time.Now().Before(deadline); time.Sleep(time.Second) {
		// Kubelet registers an agent anew that was started again, some time after it first calls it, and closes the connection then.
		passes := []string{device, driver + " is not registered", "the client connection is closing"}
		answer := m.admit(pod)
		if !slices.ContainsFunc(passes, func(text string) bool { return strings.Contains(answer.Error, text) }) {
			m.Fatalf("another pod has %s, and a claim for it is answered %+v", device, answer)
		}
	}
	m.until("the driver still answers that another pod has "+device, answers)
}

// end ends a pod in kubelet and deletes it.
func (m *machine) end(pod *corev1.Pod) {
	m.Helper()
	m.until("the claims of "+pod.Name+" are unprepared", func() bool {
		return m.tell(kubelet.Request{Operation: kubelet.Forget, Pod: pod}).Error == ""
	})
	delete(m.running, pod.UID)
	if err := client.CoreV1().Pods(namespace).Delete(m.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		m.Fatal(err)
	}
}

// claim makes a claim that is allocated the devices of the node, for the pod that will have
// the claim's name.
func (m *machine) claim(name string, devices ...string) *resourceapi.ResourceClaim {
	m.Helper()
	claims := client.ResourceV1().ResourceClaims(namespace)
	claim, err := claims.Create(m.Context(), &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: m.node + "-" + name},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: int64(len(devices)), AllocationMode: resourceapi.DeviceAllocationModeExactCount},
		}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		m.Fatal(err)
	}
	allocation := &resourceapi.AllocationResult{}
	for _, device := range devices {
		allocation.Devices.Results = append(allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "gpu", Driver: driver, Pool: m.node, Device: device,
		})
	}
	claim.Status.Allocation = allocation
	if claim, err = claims.UpdateStatus(m.Context(), claim, metav1.UpdateOptions{}); err != nil {
		m.Fatal(err)
	}
	return claim
}

// pod makes a pod that runs on the node.
func (m *machine) pod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	m.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: m.node + "-" + name}, Spec: corev1.PodSpec{
		NodeName: m.node, Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}},
		AutomountServiceAccountToken: ptr.To(false),
	}}
	for _, change := range changes {
		change(pod)
	}
	created, err := client.CoreV1().Pods(namespace).Create(m.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		m.Fatal(err)
	}
	return created
}

// podWithClaim makes a pod that has a claim, which is reserved for it.
func (m *machine) podWithClaim(name string, claim *resourceapi.ResourceClaim, changes ...func(*corev1.Pod)) *corev1.Pod {
	m.Helper()
	pod := m.pod(name, append([]func(*corev1.Pod){func(pod *corev1.Pod) {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimName: &claim.Name}}
		pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "devices"}}
	}}, changes...)...)
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	if _, err := client.ResourceV1().ResourceClaims(namespace).UpdateStatus(m.Context(), claim, metav1.UpdateOptions{}); err != nil {
		m.Fatal(err)
	}
	return pod
}

// withPlugin has a container take a device of the device plugin.
func withPlugin(container *corev1.Container) {
	amount := corev1.ResourceList{resource: one}
	container.Resources = corev1.ResourceRequirements{Limits: amount, Requests: amount}
}

// plugged is the device of the plugin that a container has.
func plugged(t *testing.T, answer kubelet.Answer, container string) string {
	t.Helper()
	devices := answer.Containers[container].Devices[resource]
	if len(devices) != 1 {
		t.Fatalf("container %s has the devices %q", container, devices)
	}
	return devices[0]
}
