// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakecluster is an API server in memory for tests of drivers.
package fakecluster

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// NodeName is the name of the only node.
const NodeName = "node-1"

// patience is the timeout of Eventually. It is long, for busy machines.
const patience = 5 * time.Minute

// NewClient returns a client of a cluster with the node and other objects. Unlike client-go's fake,
// it gives ResourceSlices generated names and resource versions.
func NewClient(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(append(objects, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeName, UID: "node-uid"}})...)
	var version atomic.Int64
	client.PrependReactor("*", "resourceslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if write, ok := action.(clienttesting.CreateAction); ok { // also implemented by updates
			slice := write.GetObject().(*resourceapi.ResourceSlice)
			slice.ResourceVersion = fmt.Sprint(version.Add(1))
			if slice.Name == "" {
				slice.Name = slice.GenerateName + slice.ResourceVersion
			}
		}
		return false, nil, nil
	})
	return client
}

// NewVersioned returns a client of a cluster with these objects, and no node but theirs. Unlike client-go's
// fake, it gives all that is written a resource version and a UID, and stores nothing of a dry run.
func NewVersioned(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	var number atomic.Int64
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if IsDryRun(action) {
			return true, action.(clienttesting.CreateAction).GetObject(), nil
		}
		if write, ok := action.(clienttesting.CreateAction); ok { // or an update
			object := write.GetObject().(metav1.Object)
			object.SetResourceVersion(fmt.Sprint(number.Add(1)))
			if object.GetUID() == "" {
				object.SetUID(types.UID("uid-" + object.GetResourceVersion()))
			}
		}
		return false, nil, nil
	})
	return client
}

// IsDryRun tells whether an object is created for a try only.
func IsDryRun(action clienttesting.Action) bool {
	create, ok := action.(clienttesting.CreateActionImpl)
	return ok && len(create.CreateOptions.DryRun) > 0
}

// Published returns the devices of all ResourceSlices, each with the keys of its taints: "gpu-0
// gpu.example.com/unhealthy".
func Published(t *testing.T, client kubernetes.Interface) []string {
	t.Helper()
	list, err := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, slice := range list.Items {
		for _, device := range slice.Spec.Devices {
			text := device.Name
			for _, taint := range device.Taints {
				text += " " + taint.Key
			}
			out = append(out, text)
		}
	}
	return out
}

// Eventually polls ok until it returns true, and fails the test otherwise.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
