package fleet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// newNode is a node with room for many pods.
func newNode(name string) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("64"),
		corev1.ResourceMemory:           resource.MustParse("512Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
	now := metav1.NewTime(time.Now())
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", "dray.dev/simulated": "true",
		}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated", Message: "nothing runs here", LastTransitionTime: now,
			}},
			NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", KubeletVersion: "v1.37.1"},
		},
	}
}

// newSlice has all devices of a node.
func newSlice(node *corev1.Node, driver string, devices int) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name + "-" + driver, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: ptr.To(true),
		}}},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: ptr.To(node.Name),
			Pool: resourceapi.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"index": {IntValue: ptr.To(int64(i))}, "model": {StringValue: ptr.To("simulated")},
			},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
		})
	}
	return slice
}

// publish writes the ResourceSlice of a node until that succeeds or can never succeed.
func (f *Fleet) publish(ctx context.Context, name string) error {
	if f.options.Devices == 0 {
		return nil
	}
	for {
		err := f.publishOnce(ctx, name)
		if err == nil || ctx.Err() != nil {
			return nil //nolint:nilerr // being told to end is no error
		}
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
			return fmt.Errorf("ResourceSlice of node %s: %w", name, err)
		}
		klog.FromContext(ctx).Error(err, "ResourceSlice was not written, and is again", "node", name)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(publishRetry):
		}
	}
}

// publishOnce creates the ResourceSlice, or makes the one that exists what it is to be.
func (f *Fleet) publishOnce(ctx context.Context, name string) error {
	owner, err := f.options.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	slices := f.options.Client.ResourceV1().ResourceSlices()
	want := newSlice(owner, f.options.Driver, f.options.Devices)
	if _, err := slices.Create(ctx, want, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		return err
	}
	stored, err := slices.Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	want.Spec.Pool.Generation = stored.Spec.Pool.Generation
	if equality.Semantic.DeepEqual(want.Spec, stored.Spec) && equality.Semantic.DeepEqual(want.OwnerReferences, stored.OwnerReferences) {
		return nil
	}
	want.ResourceVersion = stored.ResourceVersion
	_, err = slices.Update(ctx, want, metav1.UpdateOptions{})
	return err
}
