// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Command driver publishes devices, and prints what the API server then has. It is written
// against upstream's package; a test runs it with another import path, too.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/fakecluster"
)

const driver = "gpu.example.com"

func main() {
	if err := run(context.Background(), fakecluster.NewClient()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, client kubernetes.Interface) error {
	var failures atomic.Int64
	desired := &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		fakecluster.NodeName: {Generation: 3, Slices: []resourceslice.Slice{{Devices: gpus("gpu-0", "gpu-1")}, {Devices: gpus("gpu-2")}}},
		"second":             {Slices: []resourceslice.Slice{{Devices: gpus("gpu-3")}}},
	}}
	controller, err := resourceslice.StartController(ctx, resourceslice.Options{
		DriverName:       driver,
		KubeClient:       client,
		Owner:            &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: fakecluster.NodeName},
		Resources:        desired,
		Queue:            workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		MutationCacheTTL: ptr.To(resourceslice.DefaultMutationCacheTTL),
		SyncDelay:        ptr.To(resourceslice.DefaultSyncDelay),
		ErrorHandler: func(_ context.Context, err error, msg string) {
			failures.Add(1)
			var dropped *resourceslice.DroppedFieldsError
			if errors.As(err, &dropped) {
				fmt.Println("dropped fields of pool", dropped.PoolName, "slice", dropped.SliceIndex, "without", dropped.DisabledFeatures())
			}
			fmt.Println(msg, err)
		},
	})
	if err != nil {
		return err
	}
	defer controller.Stop()

	written := resourceslice.Stats{NumCreates: 3}
	if err := show(ctx, client, controller, written); err != nil {
		return err
	}
	changed := desired.DeepCopy()
	changed.Pools[fakecluster.NodeName].Slices[1].Devices[0].Taints = []resourceapi.DeviceTaint{{Key: driver + "/unhealthy", Effect: resourceapi.DeviceTaintEffectNoExecute}}
	fmt.Println("equal:", resourceslice.DevicesDeepEqual(desired.Pools[fakecluster.NodeName].Slices[1].Devices, changed.Pools[fakecluster.NodeName].Slices[1].Devices))
	controller.Update(changed)
	written.NumUpdates = 1
	if err := show(ctx, client, controller, written); err != nil {
		return err
	}
	controller.Update(nil)
	written.NumDeletes = 3
	if err := show(ctx, client, controller, written); err != nil {
		return err
	}
	if n := failures.Load(); n > 0 {
		return fmt.Errorf("%d errors", n)
	}
	return nil
}

func gpus(names ...string) []resourceapi.Device {
	var out []resourceapi.Device
	for _, name := range names {
		out = append(out, resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr.To("A")}}})
	}
	return out
}

// show waits for a number of writes, and prints the stored slices.
func show(ctx context.Context, client kubernetes.Interface, controller *resourceslice.Controller, written resourceslice.Stats) error {
	for deadline := time.Now().Add(5 * time.Minute); controller.GetStats() != written; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("written %+v, want %+v", controller.GetStats(), written)
		}
	}
	list, err := client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var lines []string
	for _, slice := range list.Items {
		line := fmt.Sprintf("%s %s %+v %s owner %s:", slice.GenerateName, slice.Spec.Driver, slice.Spec.Pool, ptr.Deref(slice.Spec.NodeName, "-"), owner(slice.OwnerReferences))
		for _, device := range slice.Spec.Devices {
			line += fmt.Sprintf(" %s %s %v", device.Name, *device.Attributes["model"].StringValue, device.Taints)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	fmt.Println(len(lines), "slices, written", fmt.Sprintf("%+v", written))
	for _, line := range lines {
		fmt.Println(line)
	}
	return nil
}

func owner(owners []metav1.OwnerReference) string {
	if len(owners) != 1 || !ptr.Deref(owners[0].Controller, false) || owners[0].APIVersion != v1.SchemeGroupVersion.String() {
		return fmt.Sprint(owners)
	}
	return owners[0].Kind + " " + owners[0].Name + " " + string(owners[0].UID)
}
