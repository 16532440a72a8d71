// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedriver

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/internal/dev/kubeletscript"
)

// scripted runs a script on the model of kubelet.
type scripted struct{ *modelKubelet }

func (s scripted) Admit(pod *corev1.Pod) (map[string][]string, error) {
	if err := s.admit(pod, func([]string) error { return nil }); err != nil {
		return nil, err
	}
	return s.assigned[pod.UID], nil
}

func (s scripted) List() map[string]map[string][]string {
	out := make(map[string]map[string][]string)
	for _, pod := range s.list().GetPodResources() {
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
	s.restart()
	s.healthy = fourDevices()
}

func (s scripted) Know(pod *corev1.Pod) { s.active[pod.UID] = pod }
func (s scripted) Ready()               { s.ready = true }
func (s scripted) End(pod *corev1.Pod)  { delete(s.active, pod.UID) }

func fourDevices() []string { return slices.Clone([]string{"gpu-0", "gpu-1", "gpu-2", "gpu-3"}) }

// TestKubeletModel says what kubelet says: the same script runs on kubelet itself.
func TestKubeletModel(t *testing.T) {
	script, err := os.ReadFile("testdata/kubelet.txt")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(10) {
		kubelet := newModelKubelet(modelDriver+"/gpu", rand.New(rand.NewPCG(seed, 2)))
		kubelet.healthy, kubelet.ready = fourDevices(), true
		newPod := func(pod *corev1.Pod) *corev1.Pod {
			pod.UID = types.UID("uid-" + pod.Name)
			return pod
		}
		if err := kubeletscript.Run(string(script), modelDriver+"/gpu", newPod, scripted{kubelet}); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}
