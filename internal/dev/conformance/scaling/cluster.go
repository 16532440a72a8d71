// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

const (
	systemNamespace = metav1.NamespaceSystem
	// groupLabel says to which group a node belongs: one whose nodes have GPUs, one whose nodes have a GPU in
	// parts and a NIC, or one without devices.
	groupLabel = "example.com/group"
	withGPUs   = "with-gpus"
	withParts  = "with-parts"
	withoutAny = "without-devices"
	// maxNodes is how many nodes a group may have. No case needs as many.
	maxNodes = 8

	gpuDriver    = "gpu.example.com"
	gpusPerNode  = 4 // two on each NUMA node
	gpuResource  = "example.com/gpu"
	partDriver   = "part.example.com"
	nicDriver    = "nic.example.com"
	fabricDriver = "fabric.example.com"
	fabricPorts  = 3 // of the whole cluster
)

// least is how many nodes a group has at any time. Others are made in the likeness of its oldest one, with its devices.
var least = map[string]int{withGPUs: 1, withParts: 1, withoutAny: 0}

// cluster is what the cases share.
type cluster struct{ client kubernetes.Interface }

// prepare creates what cluster-autoscaler's provider reads, device classes, and the devices that are of no node.
func (c *cluster) prepare(ctx context.Context) error {
	configMaps := c.client.CoreV1().ConfigMaps(systemNamespace)
	templates, err := nodeTemplates()
	if err != nil {
		return err
	}
	for name, data := range map[string]map[string]string{
		"kwok-provider-config": {"config": fmt.Sprintf("apiVersion: v1alpha1\nreadNodesFrom: configmap\nnodegroups: {fromNodeLabelKey: %s}\n"+
			"nodes: {skipTaint: true}\nconfigmap: {name: kwok-provider-templates}\n", groupLabel)},
		"kwok-provider-templates": {"templates": templates},
	} {
		if _, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for driver, extended := range map[string]*string{gpuDriver: ptr.To(gpuResource), partDriver: nil, nicDriver: nil, fabricDriver: nil} {
		class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}}
		class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}}
		class.Spec.ExtendedResourceName = extended
		if _, err := c.client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	ports := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "fabric"}}
	ports.Spec = resourceapi.ResourceSliceSpec{Driver: fabricDriver, AllNodes: ptr.To(true), Pool: pool("fabric", 1)}
	for i := range fabricPorts {
		ports.Spec.Devices = append(ports.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("port-", i)})
	}
	_, err = c.client.ResourceV1().ResourceSlices().Create(ctx, ports, metav1.CreateOptions{})
	return err
}

func pool(name string, slices int64) resourceapi.ResourcePool {
	return resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: slices}
}

// nodeTemplates has a node for each group, of which the provider makes others.
func nodeTemplates() (string, error) {
	var documents []string
	for group, minNodes := range least {
		room := corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("128Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}
		node := &corev1.Node{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{Name: group, Labels: map[string]string{groupLabel: group}, Annotations: map[string]string{
				"cluster-autoscaler.kwok.nodegroup/min-count":     fmt.Sprint(minNodes),
				"cluster-autoscaler.kwok.nodegroup/desired-count": fmt.Sprint(minNodes),
				"cluster-autoscaler.kwok.nodegroup/max-count":     fmt.Sprint(maxNodes),
			}},
			Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
		}
		text, err := yaml.Marshal(node)
		if err != nil {
			return "", err
		}
		documents = append(documents, string(text))
	}
	return strings.Join(documents, "---\n"), nil
}

// publishDevices publishes the devices of nodes that come, until it is stopped. A node's ResourceSlices end with their owner.
func (c *cluster) publishDevices() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) { return false, c.publish(ctx) })
	}()
	return func() error {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("publish devices: %w", err)
		}
		return nil
	}
}

func (c *cluster) publish(ctx context.Context) error {
	for group, slicesOf := range map[string]func(*corev1.Node) []resourceapi.ResourceSliceSpec{withGPUs: wholeGPUs, withParts: parts} {
		nodes, err := c.nodes(ctx, group)
		if err != nil {
			return err
		}
		for i := range nodes {
			if err := c.publishOn(ctx, &nodes[i], slicesOf(&nodes[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *cluster) publishOn(ctx context.Context, node *corev1.Node, specs []resourceapi.ResourceSliceSpec) error {
	for i := range specs {
		slice := &resourceapi.ResourceSlice{Spec: specs[i], ObjectMeta: metav1.ObjectMeta{
			Name:            fmt.Sprint(node.Name, "-", i),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		}}
		slice.Spec.NodeName = &node.Name
		_, err := c.client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

func wholeGPUs(node *corev1.Node) []resourceapi.ResourceSliceSpec {
	spec := resourceapi.ResourceSliceSpec{Driver: gpuDriver, Pool: pool(node.Name, 1)}
	for i := range gpusPerNode {
		spec.Devices = append(spec.Devices, resourceapi.Device{
			Name:       fmt.Sprint("gpu-", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"numa": {IntValue: ptr.To(int64(i / 2))}},
		})
	}
	return []resourceapi.ResourceSliceSpec{spec}
}

// parts is a GPU that is given away as a whole or in halves, and a NIC whose bandwidth is shared. The counters of the GPU are
// in a slice of their own.
func parts(node *corev1.Node) []resourceapi.ResourceSliceSpec {
	memory := func(amount string) map[string]resourceapi.Counter {
		return map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(amount)}}
	}
	counters := resourceapi.ResourceSliceSpec{Driver: partDriver, Pool: pool(node.Name, 2)}
	counters.SharedCounters = []resourceapi.CounterSet{{Name: "gpu", Counters: memory("80Gi")}}
	gpu := resourceapi.ResourceSliceSpec{Driver: partDriver, Pool: pool(node.Name, 2)}
	for name, amount := range map[string]string{"whole": "80Gi", "half-0": "40Gi", "half-1": "40Gi"} {
		gpu.Devices = append(gpu.Devices, resourceapi.Device{
			Name:             name,
			Attributes:       map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"profile": {StringValue: ptr.To(strings.TrimRight(name, "-01"))}},
			ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "gpu", Counters: memory(amount)}},
		})
	}
	nic := resourceapi.ResourceSliceSpec{Driver: nicDriver, Pool: pool(node.Name, 1), Devices: []resourceapi.Device{{
		Name: "nic", AllowMultipleAllocations: ptr.To(true),
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"bandwidth": {Value: resource.MustParse("100")}},
	}}}
	return []resourceapi.ResourceSliceSpec{counters, gpu, nic}
}

func (c *cluster) nodes(ctx context.Context, group string) ([]corev1.Node, error) {
	list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: groupLabel + "=" + group})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
