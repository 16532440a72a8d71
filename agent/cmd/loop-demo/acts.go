// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/agent/internal/demo"
)

// acts returns the steps of the demo, in order.
func (s *stage) acts() []demo.Act {
	return []demo.Act{
		{What: "start the nodes", Play: s.showNodes},
		{What: "run Deployments", Play: s.showDeployments},
		{What: "let a GPU fail", Play: s.showFailure},
		{What: "scale down", Play: s.showEnd},
		{What: "look for what is left", Play: s.showNothing},
	}
}

func (s *stage) showNodes(ctx context.Context) error {
	if err := s.writeHardware(); err != nil {
		return err
	}
	kubeconfig := "--kubeconfig=" + s.Plane.Kubeconfig()
	err := errors.Join(
		s.Launch("dray-agent", "run", "--simulate="+s.hardware(), "--node-name="+nodeName, kubeconfig,
			"--kubelet-dir="+s.kubeletDir(), "--cdi-dir="+s.cdiDir(), "--run-pods", "--device-plugin=false", "--listen=",
			"--pods-listen=127.0.0.1:0", "--client-ca-file="+filepath.Join(s.Plane.Folder(), "ca.crt")),
		s.Launch("simulated-nodes", "simulate", fmt.Sprintf("--nodes=%d", simulatedNodes), fmt.Sprintf("--gpus=%d", simulatedGPUs),
			"--driver="+driver, kubeconfig))
	if err != nil {
		return err
	}
	err = s.Until(ctx, func(ctx context.Context) (bool, error) {
		slices, err := s.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
		return err == nil && len(slices.Items) == simulatedNodes+1, err
	})
	if err != nil {
		return err
	}
	s.Say("%s is registered, with %d GPUs; its pods are processes. So are %d simulated nodes with %d GPUs each. dray devices says of %s:",
		nodeName, gpus, simulatedNodes, simulatedGPUs, nodeName)
	return s.ShowDevices(ctx, " "+nodeName+" ")
}

func (s *stage) showDeployments(ctx context.Context) error {
	if _, err := s.Client.ResourceV1().DeviceClasses().Create(ctx, class(), metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, d := range []struct {
		name, model string
		replicas    int32
	}{{trainers, "H200", trainerReplicas}, {crowd, "simulated", crowdReplicas}} {
		if _, err := s.Client.ResourceV1().ResourceClaimTemplates(namespace).Create(ctx, template(d.name, d.model), metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := s.Client.AppsV1().Deployments(namespace).Create(ctx, deployment(d.name, d.replicas), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	s.Say("Deployments are created, with a ResourceClaimTemplate for one GPU each: %s with %d replicas, and %s with %d.",
		trainers, trainerReplicas, crowd, crowdReplicas)
	found, err := s.awaitTrainers(ctx)
	if err != nil {
		return err
	}
	s.Say("The claims of %s are allocated and prepared, and its processes run. They print:", trainers)
	s.Print("\n")
	for _, t := range found {
		s.Print("        %s\n", t)
	}
	s.Print("\n")
	s.failing = found[0]
	return s.awaitCrowd(ctx)
}

// String returns a description with the process and the device of the trainer.
func (t trainer) String() string {
	return fmt.Sprintf("process %d of %s has %s", t.process, t.pod, t.device)
}

// awaitTrainers waits until all replicas of the Deployment trainer are running.
func (s *stage) awaitTrainers(ctx context.Context) (found []trainer, err error) {
	err = s.Until(ctx, func(ctx context.Context) (bool, error) {
		found, err = s.running(ctx)
		return len(found) == trainerReplicas, err
	})
	s.all = append(s.all, found...)
	return found, err
}

func (s *stage) awaitCrowd(ctx context.Context) error {
	var nodes map[string]bool
	err := s.Until(ctx, func(ctx context.Context) (bool, error) {
		pods, err := s.podsOf(ctx, crowd)
		if err != nil || len(pods) != crowdReplicas {
			return false, err
		}
		nodes = make(map[string]bool)
		for _, pod := range pods {
			nodes[pod.Spec.NodeName] = true
		}
		return !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Status.Phase != corev1.PodRunning }), nil
	})
	if err != nil {
		return err
	}
	s.Say("The %d pods of %s run on %d simulated nodes.", crowdReplicas, crowd, len(nodes))
	return nil
}

func (s *stage) showFailure(ctx context.Context) error {
	if err := s.writeHardware(s.failing.device); err != nil {
		return err
	}
	s.Say("%s of %s fails.", s.failing.device, nodeName)
	var taint resourceapi.DeviceTaint
	err := s.Until(ctx, func(ctx context.Context) (bool, error) {
		list, err := s.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName})
		if err != nil {
			return false, err
		}
		for _, slice := range list.Items {
			for _, device := range slice.Spec.Devices {
				if device.Name == s.failing.device && len(device.Taints) > 0 {
					taint = device.Taints[0]
					return true, nil
				}
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	s.Say("Its ResourceSlice says so: taint %s=%s:%s.", taint.Key, taint.Value, taint.Effect)
	err = s.Until(ctx, func(ctx context.Context) (bool, error) {
		pods, err := s.podsOf(ctx, trainers)
		return err == nil && !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Name == s.failing.pod }), err
	})
	if err != nil {
		return err
	}
	if s.failing.isAlive() {
		return fmt.Errorf("pod %s is gone, and its process %d is not", s.failing.pod, s.failing.process)
	}
	s.Say("Pod %s is evicted, and process %d has ended.", s.failing.pod, s.failing.process)
	before := slices.Clone(s.all)
	found, err := s.awaitTrainers(ctx)
	if err != nil {
		return err
	}
	for _, t := range found {
		if !slices.Contains(before, t) {
			s.Say("The Deployment's new pod runs elsewhere. It prints: %s", t)
		}
	}
	return s.ShowDevices(ctx, " "+nodeName+" ")
}

func (s *stage) showEnd(ctx context.Context) error {
	for _, name := range []string{trainers, crowd} {
		_, err := s.Client.AppsV1().Deployments(namespace).Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
		if err != nil {
			return err
		}
	}
	s.Say("Both Deployments are scaled down to 0.")
	return nil
}

func (s *stage) showNothing(parent context.Context) error {
	ctx, cancel := context.WithTimeout(parent, s.timeout)
	defer cancel()
	var left []string
	err := s.Until(ctx, func(ctx context.Context) (_ bool, err error) {
		left, err = s.left(ctx, s.all)
		return len(left) == 0, err
	})
	switch {
	case err != nil && parent.Err() == nil && len(left) > 0:
		return fmt.Errorf("%d things are left:\n- %s", len(left), strings.Join(left, "\n- "))
	case err != nil:
		return err
	}
	s.Say("Nothing is left: no pod, no claim, no CDI file, nothing in the checkpoints of %s and its driver, no process, no log.", nodeName)
	return nil
}
