// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/dray-project/dray/internal/dev/kubelet"
)

// readDaemonSet reads what installs dray-agent. In an update, both pods of a node run at a time.
func readDaemonSet(t *testing.T) *appsv1.DaemonSet {
	t.Helper()
	text, err := os.ReadFile("../../../agent/deploy/chart/base/daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set := &appsv1.DaemonSet{}
	if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096).Decode(set); err != nil {
		t.Fatal(err)
	}
	update := set.Spec.UpdateStrategy.RollingUpdate
	if update == nil || update.MaxSurge.IntValue() != 1 || update.MaxUnavailable.IntValue() != 0 {
		t.Fatalf("the update strategy is %+v", set.Spec.UpdateStrategy)
	}
	pod := set.Spec.Template.Spec
	for _, port := range pod.Containers[0].Ports {
		if port.HostPort != 0 || pod.HostNetwork {
			t.Fatalf("two pods cannot both have port %d of a node", port.ContainerPort)
		}
	}
	return set
}

// agentPod is a pod of the DaemonSet. Its container is missing.
type agentPod struct {
	ready func() bool
}

// startPod starts an agent with the arguments and the environment of the DaemonSet's pods.
func (m *machine) startPod(set *appsv1.DaemonSet) *agentPod {
	m.Helper()
	container := set.Spec.Template.Spec.Containers[0]
	var variables, arguments []string
	for _, variable := range container.Env {
		if variable.ValueFrom == nil || variable.ValueFrom.FieldRef == nil {
			variables = append(variables, variable.Name+"="+variable.Value)
			continue
		}
		value, known := map[string]string{"spec.nodeName": m.node, "metadata.uid": string(uuid.NewUUID())}[variable.ValueFrom.FieldRef.FieldPath]
		if !known {
			m.Fatalf("variable %s is the field %s, which this test does not know", variable.Name, variable.ValueFrom.FieldRef.FieldPath)
		}
		variables = append(variables, variable.Name+"="+value)
	}
	address := freeAddress(m.T)
	for _, argument := range container.Args {
		switch {
		case strings.HasPrefix(argument, "--sysfs="):
			argument = "--simulate=" + filepath.Join(m.dir, "hardware.yaml")
		case strings.HasPrefix(argument, "--driver="): // of what sysfs shows
			continue
		case argument == fmt.Sprintf("--listen=:%d", container.Ports[0].ContainerPort):
			argument = "--listen=" + address // each pod has a network of its own
		}
		arguments = append(arguments, argument)
	}
	program, err := filepath.Abs(filepath.Join(binaries, "dray-agent"))
	if err != nil {
		m.Fatal(err)
	}
	// What is where pods have it otherwise.
	arguments = append(arguments, "--kubeconfig="+plane.Kubeconfig(), "--kubelet-dir="+m.dir, "--cdi-dir="+m.cdi)
	m.launchAgent("/usr/bin/env", slices.Concat(variables, []string{program}, arguments)...)
	probe := container.ReadinessProbe.HTTPGet
	if probe.Port.String() != container.Ports[0].Name {
		m.Fatalf("the probe is for port %s", probe.Port.String())
	}
	return &agentPod{ready: func() bool {
		response, err := http.Get("http://" + address + probe.Path)
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// mustBeMounted looks for sockets and files of agents, and of kubelet, in folders that the DaemonSet's pods do not
// share.
func (m *machine) mustBeMounted(set *appsv1.DaemonSet) {
	m.Helper()
	var shared []string
	for _, mount := range set.Spec.Template.Spec.Containers[0].VolumeMounts {
		shared = append(shared, mount.MountPath)
	}
	const folder = "/var/lib/kubelet"
	for _, used := range []string{"plugins", "plugins_registry", "device-plugins", "pod-resources"} {
		if _, err := os.Stat(filepath.Join(m.dir, used)); err != nil || !slices.Contains(shared, folder+"/"+used) {
			m.Errorf("the agents use %s of kubelet's folder (error %v), and the pods have %v", used, err, shared)
		}
	}
	ofAgents := func(entry os.DirEntry) bool { return strings.HasPrefix(entry.Name(), driver) }
	folders, err := os.ReadDir(m.dir)
	if err != nil {
		m.Fatal(err)
	}
	for _, entry := range folders {
		inside, err := os.ReadDir(filepath.Join(m.dir, entry.Name()))
		if entry.IsDir() && filepath.Join(m.dir, entry.Name()) != m.cdi && err == nil && slices.ContainsFunc(inside, ofAgents) && !slices.Contains(shared, folder+"/"+entry.Name()) {
			m.Errorf("an agent has something in %s, and the pods have %v", entry.Name(), shared)
		}
	}
}

// TestRollingUpdate has a new agent take the place of an old one, as the DaemonSet's controller has it: each is a pod that the
// manifest describes, and the old one ends when the new one is ready. Kubelet has devices of the plugin at each moment, pods are
// admitted before, between and after, and the new agent knows what the old one gave away.
func TestRollingUpdate(t *testing.T) {
	set := readDaemonSet(t)
	m := newMachine(t)
	if err := m.agent.Stop(); err != nil { // it has no instance
		t.Fatal(err)
	}
	sockets := func(folder string, n int) func() bool {
		return func() bool {
			found, err := filepath.Glob(filepath.Join(m.dir, folder, "gpu.example.com-*.sock"))
			return err == nil && len(found) == n
		}
	}
	first := m.startPod(set)
	m.until("the first pod is ready", first.ready)
	m.awaitCapacity(4)
	claimed, plugged1 := m.podWithClaim("claimed", m.claim("claimed", "gpu-1")), m.pod("plugged", func(pod *corev1.Pod) { withPlugin(&pod.Spec.Containers[0]) })
	m.mustAdmit(claimed)
	m.awaitCapacity(3)
	device := plugged(t, m.mustAdmit(plugged1), "main")

	old := m.agent
	second := m.startPod(set)
	steady := func(what string, until func() bool) {
		t.Helper()
		m.until(what, func() bool {
			if have := m.tell(kubelet.Request{Operation: kubelet.Capacity}).Allocatable[resource]; have.Value() != 3 {
				t.Fatalf("until %s: kubelet has %d %s, want 3", what, have.Value(), resource)
			}
			return until()
		})
	}
	steady("both serve the plugin", sockets("device-plugins", 2))
	steady("both serve claims", sockets("plugins_registry", 2))
	steady("the new one is ready", second.ready)
	if !first.ready() {
		t.Error("the old one is not ready while both run")
	}
	m.mustBeMounted(set)
	free := slices.DeleteFunc([]string{"gpu-0", "gpu-1", "gpu-2", "gpu-3"}, func(name string) bool { return name == "gpu-1" || name == device })[0]
	between := m.podWithClaim("between", m.claim("between", free))
	m.mustAdmit(between)
	m.end(between)
	if err := old.Stop(); err != nil {
		t.Fatal(err)
	}
	if !second.ready() {
		t.Error("the new one is not ready when the old one has ended")
	}
	m.awaitCapacity(3) // the one between is offered again
	steady("the old one is gone", sockets("device-plugins", 1))
	after := time.Now()
	steady("three seconds later", func() bool { return time.Since(after) > 3*time.Second })
	for _, held := range []string{"gpu-1", device} {
		m.mustRefuse(m.podWithClaim("rival-"+held, m.claim("rival-"+held, held)), held, time.Second)
	}
	m.end(claimed)
	m.awaitCapacity(4)
	if files, err := os.ReadDir(m.cdi); err != nil || slices.ContainsFunc(files, func(f os.DirEntry) bool { return strings.HasPrefix(f.Name(), driver+"_") }) {
		t.Errorf("left of claims: %v, %v", files, err)
	}
}
