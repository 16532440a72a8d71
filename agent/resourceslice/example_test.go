// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dray-project/dray/agent/resourceslice"
)

// A driver publishes the devices of its node, and again whenever they change.
func ExampleStartController() {
	publish := func(ctx context.Context, nodeName string, changes <-chan []resourceapi.Device) error {
		config, err := rest.InClusterConfig()
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		controller, err := resourceslice.StartController(ctx, resourceslice.Options{
			DriverName: "gpu.example.com",
			KubeClient: client,
			Owner:      &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: nodeName},
			ErrorHandler: func(_ context.Context, err error, msg string) {
				if dropped := new(resourceslice.DroppedFieldsError); errors.As(err, &dropped) {
					log.Printf("switch on the feature gates %v", dropped.DisabledFeatures())
				}
				log.Printf("%s: %v", msg, err)
			},
		})
		if err != nil {
			return err
		}
		defer controller.Stop()
		var before []resourceslice.Slice
		for devices := range changes {
			before = resourceslice.Split(before, resourceslice.Slice{Devices: devices})
			controller.Update(&resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{nodeName: {Slices: before}}})
		}
		return nil
	}
	_ = publish
}

// Any number of devices becomes slices that the API server accepts. A device that changes
// stays in its slice, so that one slice is written.
func ExampleSplit() {
	var all resourceslice.Slice
	for i := range 300 {
		all.Devices = append(all.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i)})
	}
	first := resourceslice.Split(nil, all)
	all.Devices = all.Devices[1:] // gpu-0 is gone
	second := resourceslice.Split(first, all)
	for i := range second {
		fmt.Println(len(first[i].Devices), len(second[i].Devices))
	}
	// Output:
	// 128 127
	// 128 128
	// 44 44
}

// A driver that lost sight of its hardware keeps new pods away from all devices.
func ExampleTaintAll() {
	published := &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		"node-1": {Slices: []resourceslice.Slice{{Devices: []resourceapi.Device{{Name: "gpu-0"}}}}},
	}}
	tainted := resourceslice.TaintAll(published, resourceapi.DeviceTaint{
		Key: "gpu.example.com/source-lost", Effect: resourceapi.DeviceTaintEffectNoSchedule,
	})
	fmt.Println(tainted.Pools["node-1"].Slices[0].Devices[0].Taints[0].Key)
	// Output: gpu.example.com/source-lost
}
