// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/internal/dev/kubelet/realnode"
)

// binaries is where make puts all programs.
const binaries = "../../../../bin"

// patience is how long is waited for what must happen, on machines that have other things to do.
const patience = 3 * time.Minute

const (
	driver   = "gpu.example.com"
	resource = driver + "/gpu"
	class    = "gpu"
	gpus     = 4
)

// hardware is what the agent has.
const hardware = `groups:
- driver: gpu.example.com
  name: gpu
  count: 4
  type: gpu
  attributes: {model: {string: H200}}
  env: ["GPU_{device}=given"]
- driver: nic.example.com
  name: nic
  count: 2
  shares: 4
  type: nic
  attributes: {speed: {int: 400}}
  env: ["NIC_{device}=given"]
`

var (
	plane  *controlplane.ControlPlane
	client kubernetes.Interface
	node   *realnode.Node
	agent  *realnode.Program
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		code := 1
		err := run(func() {
			if code = m.Run(); code != 0 {
				plane.KeepFolder()
			}
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	}())
}

// run starts a control plane, a node and an agent, and ends all in the end.
func run(tests func()) (failure error) {
	programs, err := controlplane.BinariesIn(binaries)
	if err != nil {
		return fmt.Errorf("%w\nrun make test-kubelet, which builds what is needed", err)
	}
	ctx := context.Background()
	if plane, err = controlplane.Start(ctx, controlplane.Options{Binaries: programs, Scheduler: controlplane.Dray}); err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, plane.Stop()) }()
	if client, err = kubernetes.NewForConfig(plane.Config()); err != nil {
		return err
	}
	if node, err = realnode.Start(ctx, plane, realnode.Options{Name: "real", Binaries: binaries}); err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, node.Stop()) }()
	for name, of := range map[string]string{class: driver, "nic": "nic.example.com"} {
		object := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", of)},
		}}}}
		if name == class {
			object.Spec.ExtendedResourceName = ptr.To("example.com/accelerator")
		}
		if _, err := client.ResourceV1().DeviceClasses().Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(node.Folder(), "hardware.yaml"), []byte(hardware), 0o600); err != nil {
		return err
	}
	if err := startAgent(); err != nil {
		return err
	}
	tests()
	return agent.Stop()
}

func startAgent() (err error) {
	program, err := filepath.Abs(filepath.Join(binaries, "dray-agent"))
	if err != nil {
		return err
	}
	agent, err = node.Launch("dray-agent", program, "run", "--simulate="+filepath.Join(node.Folder(), "hardware.yaml"), "--node-name="+node.Name(),
		"--kubeconfig="+plane.Kubeconfig(), "--listen=")
	return err
}

// until waits for what must become true.
func until(t *testing.T, what string, ask func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ask(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s; logs are in %s", patience, what, plane.Folder())
		}
		for _, program := range []*realnode.Program{agent, node.Kubelet, node.Containerd} {
			if err := program.Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// logs is what a container wrote.
func logs(t *testing.T, namespace, pod, container string) []string {
	t.Helper()
	text, err := client.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container}).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}
