// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
)

// scene is the namespace of a case.
type scene struct {
	*cluster
	namespace string
}

// cases begin and end with the least number of nodes. The namespace of each has its name.
var cases = []struct {
	name string
	run  func(ctx context.Context, s *scene) error
}{
	// Five pairs of GPUs are on three nodes, and none of them is without.
	{"nodes-for-claims", func(ctx context.Context, s *scene) error {
		if err := s.runPods(ctx, "pairs", 5, s.template("pair", pair())); err != nil {
			return err
		}
		return s.expect(ctx, counts{running: 5, gpus: 2})
	}},
	// No node has three GPUs of one NUMA node. Nodes are not added for that, and the pod is told so.
	{"no-node-helps", func(ctx context.Context, s *scene) error {
		if err := s.runPods(ctx, "triple", 1, s.template("triple", aligned(3))); err != nil {
			return err
		}
		if err := s.expectEvent(ctx, "NotTriggerScaleUp"); err != nil {
			return err
		}
		return s.expect(ctx, counts{waiting: 1})
	}},
	// Each pod prefers three GPUs of one node and gets two, of one NUMA node.
	{"second-choice", func(ctx context.Context, s *scene) error {
		choice := func(name string, count int64) resourceapi.DeviceSubRequest {
			return resourceapi.DeviceSubRequest{Name: name, DeviceClassName: gpuDriver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
		}
		claim := pair()
		claim.Requests[0] = resourceapi.DeviceRequest{Name: "gpus", FirstAvailable: []resourceapi.DeviceSubRequest{choice("three", 3), choice("two", 2)}}
		if err := s.runPods(ctx, "choosing", 5, s.template("choice", claim)); err != nil {
			return err
		}
		return s.expect(ctx, counts{running: 5, gpus: 2})
	}},
	// Pods that share a claim are on one node.
	{"shared-claims", func(ctx context.Context, s *scene) error {
		for i := range 3 {
			name := fmt.Sprint("shared-", i)
			if err := s.addClaim(ctx, name, gpus(gpusPerNode)); err != nil {
				return err
			}
			if err := s.runPods(ctx, name, 2, s.shared(name)); err != nil {
				return err
			}
		}
		return s.expect(ctx, counts{running: 6, gpus: 2})
	}},
	// Ports are of no node, and there are three. A pod that needs four gets none from more nodes.
	{"too-few-devices-of-no-node", func(ctx context.Context, s *scene) error {
		if err := s.runPods(ctx, "with-ports", 1, s.template("pair-and-ports", withPorts(pair(), fabricPorts+1))); err != nil {
			return err
		}
		if err := s.expectEvent(ctx, "NotTriggerScaleUp"); err != nil {
			return err
		}
		return s.expect(ctx, counts{waiting: 1})
	}},
	// cluster-autoscaler cannot make other nodes in the likeness of one whose pods have devices of no node. It then does nothing
	// at all, with either plugin: the third pod needs a node, and gets none.
	{"stops-for-devices-of-no-node", func(ctx context.Context, s *scene) error {
		if err := s.awaitOldNode(ctx); err != nil {
			return err
		}
		if err := s.runPods(ctx, "with-port", 2, s.template("pair-and-port", withPorts(pair(), 1))); err != nil {
			return err
		}
		if err := s.expect(ctx, counts{running: 2}); err != nil {
			return err
		}
		if err := s.runPods(ctx, "third", 1, s.template("pair", pair())); err != nil {
			return err
		}
		return s.expect(ctx, counts{running: 2, waiting: 1})
	}},
	// Two halves of a GPU are on one node, and a whole one is alone.
	{"partitions", func(ctx context.Context, s *scene) error {
		for profile, pods := range map[string]int32{"half": 3, "whole": 2} {
			if err := s.runPods(ctx, profile, pods, s.template(profile, part(profile))); err != nil {
				return err
			}
		}
		return s.expect(ctx, counts{running: 5, parts: 3})
	}},
	// Of 100 of bandwidth, two pods get 40 each.
	{"consumable-capacity", func(ctx context.Context, s *scene) error {
		if err := s.runPods(ctx, "bandwidth", 5, s.template("bandwidth", bandwidth("40"))); err != nil {
			return err
		}
		return s.expect(ctx, counts{running: 5, parts: 2})
	}},
	// Pods that ask for GPUs by the name of a resource have no claim, until the scheduler makes one.
	{"extended-resource", func(ctx context.Context, s *scene) error {
		if err := s.runPods(ctx, "extended", 5, asking(2)); err != nil {
			return err
		}
		return s.expect(ctx, counts{running: 5, gpus: 2})
	}},
	// Two nodes with half of their GPUs in use become one. Its pods have devices of their own.
	{"pods-move-together", func(ctx context.Context, s *scene) error {
		if err := s.runPods(ctx, "pairs", 4, s.template("pair", pair())); err != nil {
			return err
		}
		if err := s.expect(ctx, counts{running: 4, gpus: 1}); err != nil {
			return err
		}
		if err := s.leaveOneOnEachNode(ctx, "pairs"); err != nil {
			return err
		}
		return s.expect(ctx, counts{running: 2})
	}},
}

// runAll runs the cases, each in a namespace of its own. After each, the nodes that nobody needs have to go.
func (c *cluster) runAll(ctx context.Context, ended func(Result)) error {
	report := func(name string, run func() error) error {
		began := time.Now()
		err := run()
		if ctx.Err() == nil {
			ended(Result{name, time.Since(began), err})
		}
		return ctx.Err()
	}
	for _, test := range cases {
		s := &scene{cluster: c, namespace: test.name}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: test.name}}
		if _, err := c.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return err
		}
		err := report(test.name, func() error {
			if err := s.expect(ctx, counts{}); err != nil {
				return err
			}
			return test.run(ctx, s)
		})
		if err != nil {
			return err
		}
		err = report("nodes-go-after-"+test.name, func() error {
			if err := s.clear(ctx); err != nil {
				return err
			}
			return s.expect(ctx, counts{})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// clear deletes the namespace and waits until it is gone.
func (s *scene) clear(ctx context.Context) error {
	namespaces := s.client.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, period, patience, true, func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, s.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("namespace %s does not go: %w\n%s", s.namespace, err, s.describe())
	}
	return nil
}

// podEdit gives a pod devices. It creates what the pod refers to.
type podEdit func(ctx context.Context, spec *corev1.PodSpec) error

// runPods has a ReplicaSet run pods.
func (s *scene) runPods(ctx context.Context, name string, replicas int32, edit podEdit) error {
	labels := map[string]string{"app": name}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Spec.Replicas, set.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec = corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false),
		Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
		}}},
	}
	if err := edit(ctx, &set.Spec.Template.Spec); err != nil {
		return err
	}
	_, err := s.client.AppsV1().ReplicaSets(s.namespace).Create(ctx, set, metav1.CreateOptions{})
	return err
}

// template gives each pod a claim of its own.
func (s *scene) template(name string, devices resourceapi.DeviceClaim) podEdit {
	return func(ctx context.Context, spec *corev1.PodSpec) error {
		template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
		template.Spec.Spec.Devices = devices
		if _, err := s.client.ResourceV1().ResourceClaimTemplates(s.namespace).Create(ctx, template, metav1.CreateOptions{}); err != nil {
			return err
		}
		use(spec, corev1.PodResourceClaim{Name: "devices", ResourceClaimTemplateName: &name})
		return nil
	}
}

// shared gives all pods one claim.
func (s *scene) shared(claim string) podEdit {
	return func(_ context.Context, spec *corev1.PodSpec) error {
		use(spec, corev1.PodResourceClaim{Name: "devices", ResourceClaimName: &claim})
		return nil
	}
}

func use(spec *corev1.PodSpec, claim corev1.PodResourceClaim) {
	spec.ResourceClaims = []corev1.PodResourceClaim{claim}
	spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: claim.Name}}
}

// asking asks for GPUs by the name of a resource.
func asking(count int64) podEdit {
	return func(_ context.Context, spec *corev1.PodSpec) error {
		resources := &spec.Containers[0].Resources
		resources.Requests[gpuResource] = *resource.NewQuantity(count, resource.DecimalSI)
		resources.Limits = corev1.ResourceList{gpuResource: resources.Requests[gpuResource]}
		return nil
	}
}

func (s *scene) addClaim(ctx context.Context, name string, devices resourceapi.DeviceClaim) error {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	claim.Spec.Devices = devices
	_, err := s.client.ResourceV1().ResourceClaims(s.namespace).Create(ctx, claim, metav1.CreateOptions{})
	return err
}

func gpus(count int64) resourceapi.DeviceClaim {
	return resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{request("gpus", gpuDriver, count)}}
}

func request(name, class string, count int64) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
	}}
}

// aligned wants GPUs of one NUMA node.
func aligned(count int64) resourceapi.DeviceClaim {
	claim := gpus(count)
	claim.Constraints = []resourceapi.DeviceConstraint{{
		Requests: []string{"gpus"}, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(gpuDriver + "/numa")),
	}}
	return claim
}

func pair() resourceapi.DeviceClaim { return aligned(2) }

func withPorts(claim resourceapi.DeviceClaim, count int64) resourceapi.DeviceClaim {
	claim.Requests = append(claim.Requests, request("ports", fabricDriver, count))
	return claim
}

// part wants a part of a GPU by its profile.
func part(profile string) resourceapi.DeviceClaim {
	wanted := request("part", partDriver, 1)
	wanted.Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: fmt.Sprintf("device.attributes[%q].profile == %q", partDriver, profile),
	}}}
	return resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{wanted}}
}

// bandwidth wants a share of a NIC.
func bandwidth(amount string) resourceapi.DeviceClaim {
	wanted := request("nic", nicDriver, 1)
	wanted.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"bandwidth": resource.MustParse(amount)}}
	return resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{wanted}}
}

// leaveOneOnEachNode takes all pods of a ReplicaSet but one on each node.
func (s *scene) leaveOneOnEachNode(ctx context.Context, name string) error {
	pods := s.client.CoreV1().Pods(s.namespace)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return err
	}
	left := make(map[string]bool)
	for i := range list.Items {
		pod := &list.Items[i]
		if !left[pod.Spec.NodeName] {
			left[pod.Spec.NodeName] = true
			continue
		}
		goesFirst := []byte(`{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"-1"}}}`)
		if _, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, goesFirst, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	replicas := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, len(left))
	_, err = s.client.AppsV1().ReplicaSets(s.namespace).Patch(ctx, name, types.StrategicMergePatchType, replicas, metav1.PatchOptions{})
	return err
}
