// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/internal/fakedriver"
	"github.com/dray-project/dray/agent/internal/shortdir"
)

const (
	gpus = "gpu.example.com"
	nics = "nic.example.com"
)

// driver is one that notes what is asked of it.
type driver = fakedriver.Driver

// startDriver starts a driver whose sockets are in folder.
func startDriver(t *testing.T, folder, name string, change ...func(*driver)) *driver {
	t.Helper()
	d, err := fakedriver.Start(folder, name, change...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	return d
}

// listen has a driver that was stopped come back.
func listen(t *testing.T, d *driver) {
	t.Helper()
	if err := d.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
}

// node is the folders of a node, and the API server.
type node struct {
	folder   string
	client   *fake.Clientset
	recorder *record.FakeRecorder
	preparer *Preparer
}

func newNode(t *testing.T, objects ...runtime.Object) *node {
	t.Helper()
	folder := shortdir.New(t)
	n := &node{folder: folder, client: fake.NewClientset(objects...), recorder: record.NewFakeRecorder(100)}
	n.start(t)
	return n
}

func (n *node) registry() string { return filepath.Join(n.folder, "r") }

func (n *node) options() Options {
	return Options{KubeClient: n.client, NodeName: "n", RegistrationDir: n.registry(), Checkpoint: filepath.Join(n.folder, "state", "claims"), Recorder: n.recorder}
}

func (n *node) start(t *testing.T) {
	t.Helper()
	var err error
	if n.preparer, err = Start(t.Context(), n.options()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.preparer.Stop)
}

// driver starts one and waits until it is registered.
func (n *node) driver(t *testing.T, name string, change ...func(*driver)) *driver {
	t.Helper()
	d := startDriver(t, n.registry(), name, change...)
	n.registered(t, name)
	return d
}

func (n *node) registered(t *testing.T, name string) {
	t.Helper()
	fakecluster.Eventually(t, "registration of "+name, func() bool { _, err := n.preparer.plugins.client(name); return err == nil })
}

func (n *node) prepare(t *testing.T, p *v1.Pod) {
	t.Helper()
	if err := n.preparer.Prepare(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func (n *node) release(t *testing.T, p *v1.Pod) {
	t.Helper()
	if err := n.preparer.Release(t.Context(), p.UID); err != nil {
		t.Fatal(err)
	}
}

// claim has devices of drivers and is reserved for pods.
func claim(uid string, drivers []string, pods ...string) *resourceapi.ResourceClaim {
	out := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)}}
	out.Status.Allocation = &resourceapi.AllocationResult{}
	for i, name := range drivers {
		out.Status.Allocation.Devices.Results = append(out.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: string(rune('a' + i)), Driver: name, Pool: uid, Device: fmt.Sprint(i),
		})
	}
	for _, pod := range pods {
		out.Status.ReservedFor = append(out.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(pod)})
	}
	return out
}

// pod refers to claims by their names, and its container has all of them.
func pod(name string, claims ...string) *v1.Pod {
	out := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	container := v1.Container{Name: "main"}
	for _, claim := range claims {
		out.Spec.ResourceClaims = append(out.Spec.ResourceClaims, v1.PodResourceClaim{Name: "as-" + claim, ResourceClaimName: ptr.To(claim)})
		container.Resources.Claims = append(container.Resources.Claims, v1.ResourceClaim{Name: "as-" + claim})
	}
	out.Spec.Containers = []v1.Container{container}
	return out
}

// same compares lists of words.
func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// contains expects an error with a text in it.
func contains(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

var errBoom = errors.New("boom")
