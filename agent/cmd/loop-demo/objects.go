// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/dray-project/dray/agent/inventory"
)

const (
	nodeName  = "node-1"
	namespace = "default"
	driver    = "gpu.example.com"

	simulatedNodes = 50
	simulatedGPUs  = 8 // per node
	gpus           = 4 // of node-1

	trainers = "trainer" // the Deployment on node-1
	crowd    = "crowd"   // the Deployment on simulated nodes

	trainerReplicas = 3
	crowdReplicas   = 100
)

// script is the command of trainers. The first line of their logs names their device.
const script = `echo "$POD has $EXAMPLE_GPU"; exec sleep infinity`

// writeHardware writes the file that describes the GPUs of node-1. The agent reads it again when it
// changes.
func (s *stage) writeHardware(failing ...string) error {
	hardware := inventory.SimulatedDevices{Groups: []inventory.SimulatedGroup{{
		Driver: driver, Name: "gpu", Count: gpus,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr.To("H200")}},
		Capacity:   map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("141Gi")},
		PCIBus:     16, PCIeRoots: 2, NUMANodes: 2,
		Env: []string{"EXAMPLE_GPU={device}"},
	}}}
	for _, device := range failing {
		hardware.Script = append(hardware.Script, inventory.SimulatedEvent{Device: device, Fail: &inventory.SimulatedFailure{
			Reason: "DoubleBitEccError", Message: "an uncorrectable memory error was counted", Evict: true,
		}})
	}
	text, err := yaml.Marshal(hardware)
	if err != nil {
		return err
	}
	next := s.hardware() + ".new"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, s.hardware())
}

func class() *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec:       resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{selector("device.driver == %q", driver)}},
	}
}

func selector(format string, arguments ...any) resourceapi.DeviceSelector {
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf(format, arguments...)}}
}

// template returns a ResourceClaimTemplate for one GPU of a model.
func template(name, model string) *resourceapi.ResourceClaimTemplate {
	request := resourceapi.DeviceRequest{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: driver, Selectors: []resourceapi.DeviceSelector{selector("device.attributes[%q].model == %q", driver, model)},
	}}
	return &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{request}}}},
	}
}

// deployment returns a Deployment whose pods have a claim from the template of the same name.
func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To(int64(time.Minute / time.Second)),
					Tolerations:                   []corev1.Toleration{{Key: "dray.dev/processes", Operator: corev1.TolerationOpExists}},
					ResourceClaims:                []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To(name)}},
					Containers: []corev1.Container{{
						Name: "main", Image: "none", Command: []string{"/bin/sh", "-c", script},
						Env:       []corev1.EnvVar{{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
						Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}},
					}},
				},
			},
		},
	}
}
