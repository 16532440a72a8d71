// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet_test

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/dray-project/dray/internal/dev/kubelet"
	"github.com/dray-project/dray/internal/dev/kubeletscript"
)

// scripted runs a script on kubelet itself.
type scripted struct{ *machine }

func (s scripted) Admit(pod *corev1.Pod) (map[string][]string, error) {
	answer := s.admit(pod)
	if answer.Error != "" {
		return nil, scriptError(answer.Error)
	}
	out := make(map[string][]string)
	for name, container := range answer.Containers {
		out[name] = container.Devices[resource]
	}
	return out, nil
}

type scriptError string

func (e scriptError) Error() string { return string(e) }

func (s scripted) List() map[string]map[string][]string {
	s.Helper()
	conn, err := grpc.NewClient("unix:"+filepath.Join(s.dir, "pod-resources", "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	answer, err := podresourcesapi.NewPodResourcesListerClient(conn).List(s.Context(), &podresourcesapi.ListPodResourcesRequest{}, grpc.WaitForReady(true))
	if err != nil {
		s.Fatal(err)
	}
	out := make(map[string]map[string][]string)
	for _, pod := range answer.GetPodResources() {
		out[pod.GetName()] = make(map[string][]string)
		for _, container := range pod.GetContainers() {
			out[pod.GetName()][container.GetName()] = nil
			for _, devices := range container.GetDevices() {
				out[pod.GetName()][container.GetName()] = append(out[pod.GetName()][container.GetName()], devices.GetDeviceIds()...)
			}
		}
	}
	return out
}

func (s scripted) Restart() {
	s.restartKubelet()
	s.awaitCapacity(4) // the plugin registers again
}

func (s scripted) Know(pod *corev1.Pod) { s.tell(kubelet.Request{Operation: kubelet.Know, Pod: pod}) }
func (s scripted) Ready()               { s.tell(kubelet.Request{Operation: kubelet.Ready}) }
func (s scripted) End(pod *corev1.Pod)  { s.end(pod) }

// TestScript has kubelet say what the model of kubelet says that the driver's tests use.
func TestScript(t *testing.T) {
	script, err := os.ReadFile("../../../agent/nodedriver/testdata/kubelet.txt")
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	newPod := func(pod *corev1.Pod) *corev1.Pod {
		return m.pod(pod.Name, func(made *corev1.Pod) {
			made.Spec.InitContainers, made.Spec.Containers = pod.Spec.InitContainers, pod.Spec.Containers
		})
	}
	if err := kubeletscript.Run(string(script), resource, newPod, scripted{m}); err != nil {
		t.Error(err)
	}
}
