// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/fakekubelet"
	"github.com/dray-project/dray/agent/internal/leakcheck"
	"github.com/dray-project/dray/agent/internal/shortdir"
	"github.com/dray-project/dray/internal/dev/controlplane"
	"github.com/dray-project/dray/internal/dev/install"
)

const (
	patience = 3 * time.Minute
	nodeName = "node-1"
	driver   = "pci.example.com" // of the manifests
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// installation is an agent that runs as its manifests say: with the arguments of the
// DaemonSet, and a token of its ServiceAccount that is bound to a pod on the node. The
// container is missing, and kubelet is played.
type installation struct {
	plane    *controlplane.ControlPlane
	client   kubernetes.Interface // the administrator's
	objects  []*unstructured.Unstructured
	recorder *install.Recorder
	daemons  types.UID   // of the DaemonSet
	pod      *corev1.Pod // of the agent

	folder  string // kubelet's
	kubelet *fakekubelet.Kubelet
	watcher *fakekubelet.PluginWatcher
	running *exec.Cmd
}

// TestInstallation goes with the agent through all that needs a permission, and compares
// what it asked of the API server with what it is allowed.
func TestInstallation(t *testing.T) {
	i := newInstallation(t)
	for _, act := range []struct {
		name string
		play func(*testing.T)
	}{
		{"every variant is valid", i.dryRun},
		{"install", i.install},
		{"publish", i.publish},
		{"prepare a claim", i.prepare},
		{"devices go", i.shrink},
		{"start with a damaged ledger", i.damage},
		{"tell that a device has two users", i.conflict},
		{"tell that a pool has two publishers", i.contest},
		{"exactly these permissions", i.comparePermissions},
		{"slices of other nodes", i.writeSlices},
		{"status of devices needs its permission", i.withholdDriver},
		{"each node has an agent, whatever its taints", i.spread},
		{"an update replaces agents that have a successor", i.replace},
	} {
		if !t.Run(act.name, act.play) {
			return
		}
	}
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	i := onControlPlane(t, rendered(t, "kustomize", "default"), "associated-node")
	i.playKubelet(t)
	return i
}

// onControlPlane starts a control plane for objects, whose account writes the status of devices of
// claims that are so and so associated with its node.
func onControlPlane(t *testing.T, objects []*unstructured.Unstructured, associated string) *installation {
	t.Helper()
	programs, err := controlplane.BinariesIn(binaries)
	if err != nil {
		t.Fatalf("%v; run make controlplane first", err)
	}
	i := &installation{folder: shortdir.New(t), objects: objects}
	t.Cleanup(func() { // if an act fails
		if i.running != nil {
			_ = i.running.Process.Kill()
			_ = i.running.Wait()
		}
	})
	i.plane, err = controlplane.Start(t.Context(), controlplane.Options{Binaries: programs, Scheduler: controlplane.Dray})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	if i.client, err = kubernetes.NewForConfig(i.plane.Config()); err != nil {
		t.Fatal(err)
	}
	if i.recorder, err = install.Record(i.plane); err != nil {
		t.Fatal(err)
	}
	i.recorder.Implied = func(p install.Permission) []install.Permission {
		if p.Resource != "resourceclaims/status" {
			return nil
		}
		// The only thing that a driver changes there is status.devices.
		return []install.Permission{{Verb: associated + ":" + p.Verb, Group: p.Group, Resource: "resourceclaims/driver", Name: driver}}
	}
	t.Cleanup(func() {
		if err := i.recorder.Close(); err != nil {
			t.Error(err)
		}
	})
	return i
}

// playKubelet serves and looks at the sockets that a kubelet does.
func (i *installation) playKubelet(t *testing.T) {
	t.Helper()
	for _, name := range []string{"plugins_registry", "device-plugins", "pod-resources"} {
		if err := os.MkdirAll(filepath.Join(i.folder, name), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if i.kubelet, err = fakekubelet.Start(filepath.Join(i.folder, "device-plugins"), fakekubelet.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.kubelet.Kill)
	if err := i.kubelet.ServePodResources(filepath.Join(i.folder, "pod-resources", "kubelet.sock")); err != nil {
		t.Fatal(err)
	}
	if i.watcher, err = fakekubelet.StartPluginWatcher(filepath.Join(i.folder, "plugins_registry"), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.watcher.Kill)
}

func (i *installation) dryRun(t *testing.T) {
	applier, err := install.NewApplier(i.plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	for name, variant := range variants {
		for _, object := range rendered(t, variant...) {
			if err := applier.Apply(t.Context(), object, metav1.DryRunAll); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// apply creates the objects.
func (i *installation) apply(t *testing.T) {
	t.Helper()
	applier, err := install.NewApplier(i.plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range i.objects {
		if err := applier.Apply(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

func (i *installation) install(t *testing.T) {
	i.apply(t)
	i.addNode(t, nodeName, corev1.Linux)
	i.pod = eventually(t, "the agent's pod", func(ctx context.Context) (*corev1.Pod, error) { return i.agentOn(ctx, nodeName) })
	// The pod that kubelet reports. The agent believes that devices are free once it knows all pods of kubelet.
	reported := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: metav1.NamespaceDefault},
		Spec:       corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	reported = eventually(t, "the pod that kubelet reports", func(ctx context.Context) (*corev1.Pod, error) {
		return i.client.CoreV1().Pods(reported.Namespace).Create(ctx, reported, metav1.CreateOptions{})
	})
	reported.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: ptr.To(metav1.Now())}
	if _, err := i.client.CoreV1().Pods(reported.Namespace).UpdateStatus(t.Context(), reported, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// eventually repeats an attempt until it succeeds.
func eventually[T any](t *testing.T, what string, attempt func(context.Context) (T, error)) T {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		result, err := attempt(t.Context())
		if err == nil {
			return result
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// token is what kubelet mounts into the agent's pod.
func (i *installation) token(t *testing.T) string {
	t.Helper()
	token, err := install.Token(t.Context(), i.client, i.pod.Namespace, i.pod.Spec.ServiceAccountName, i.pod)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// start starts an agent on simulated hardware, with further variables of the environment.
func (i *installation) start(t *testing.T, environment ...string) {
	t.Helper()
	var arguments []string
	for _, argument := range i.pod.Spec.Containers[0].Args {
		// What differs outside of the container.
		if !strings.HasPrefix(argument, "--sysfs=") && !strings.HasPrefix(argument, "--driver=") && !strings.HasPrefix(argument, "--listen=") {
			arguments = append(arguments, argument)
		}
	}
	i.launch(t, i.token(t), arguments, append([]string{"NODE_NAME=" + nodeName, "POD_UID=" + string(i.pod.UID)}, environment...))
}

// launch starts an agent on simulated hardware that has a token.
func (i *installation) launch(t *testing.T, token string, arguments, environment []string) {
	t.Helper()
	kubeconfig := filepath.Join(i.folder, "kubeconfig")
	if err := i.recorder.WriteKubeconfig(kubeconfig, token); err != nil {
		t.Fatal(err)
	}
	arguments = append(arguments, "--simulate="+filepath.Join(i.folder, "hardware.yaml"), "--listen=", "--kubeconfig="+kubeconfig,
		"--kubelet-dir="+i.folder, "--cdi-dir="+filepath.Join(i.folder, "cdi"))
	program, err := filepath.Abs(filepath.Join(binaries, "dray-agent"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(i.folder, fmt.Sprintf("log-%d", time.Now().UnixNano())))
	if err != nil {
		t.Fatal(err)
	}
	agent := exec.Command(program, arguments...)
	agent.Env = append(os.Environ(), environment...)
	agent.Stdout, agent.Stderr = log, log
	if err := errors.Join(agent.Start(), log.Close()); err != nil {
		t.Fatal(err)
	}
	i.running = agent
}

// stop ends the agent, and quotes its log if the test has failed.
func (i *installation) stop(t *testing.T) {
	t.Helper()
	if i.running == nil {
		return
	}
	if err := i.running.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := i.running.Wait(); err != nil {
		t.Errorf("the agent ended with %v:\n%s", err, i.log(t))
	}
	i.running = nil
}

func (i *installation) log(t *testing.T) string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(i.folder, "log-*"))
	if err != nil || len(logs) == 0 {
		return fmt.Sprintf("no log (%v)", err)
	}
	text, err := os.ReadFile(slices.Max(logs))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-8000):])
}

// hardware makes the node have a number of devices. A ResourceSlice takes 128.
func (i *installation) hardware(t *testing.T, count int) {
	t.Helper()
	writeFile(t, i.folder, "hardware.yaml", fmt.Sprintf("groups:\n- {driver: %s, name: dev, count: %d, type: dev}\n", driver, count))
}

// slices are how many ResourceSlices there are, with so many devices.
func (i *installation) slices(t *testing.T, want, devices int) {
	t.Helper()
	eventually(t, "ResourceSlices", func(ctx context.Context) (any, error) {
		list, err := i.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		count := 0
		for _, slice := range list.Items {
			count += len(slice.Spec.Devices)
		}
		if len(list.Items) != want || count != devices {
			return nil, fmt.Errorf("%d slices with %d devices, want %d with %d; the log ends with\n%s", len(list.Items), count, want, devices, i.log(t))
		}
		return nil, nil
	})
}

// comparePermissions finds what is missing and what is too much.
func (i *installation) comparePermissions(t *testing.T) {
	lacking, idle := install.Compare(i.granted(t), i.recorder.Needed())
	if len(lacking) > 0 {
		t.Errorf("needed, and not allowed: %v", lacking)
	}
	if len(idle) > 0 {
		t.Errorf("allowed, and never needed: %v", idle)
	}
	if refused := i.recorder.Refused(); len(refused) > 0 {
		t.Errorf("refused by the API server: %v", refused)
	}
}

// granted is what all roles of the objects allow.
func (i *installation) granted(t *testing.T) []install.Permission {
	t.Helper()
	rules := as[rbacv1.ClusterRole](t, i.objects, "ClusterRole").Rules
	for _, object := range i.objects {
		if object.GetKind() == "Role" {
			rules = append(rules, as[rbacv1.Role](t, i.objects, "Role").Rules...)
		}
	}
	return install.Granted(rules...)
}
