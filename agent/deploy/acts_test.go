// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/nodedriver"
	"github.com/dray-project/dray/internal/dev/install"
)

func (i *installation) publish(t *testing.T) {
	i.hardware(t, 130)
	i.start(t)
	i.slices(t, 2, 130)
	eventually(t, "a list of pods", func(context.Context) (any, error) {
		if !slices.Contains(i.recorder.Needed(), install.Permission{Verb: "list", Resource: "pods"}) {
			return nil, fmt.Errorf("not among %v", i.recorder.Needed())
		}
		return nil, nil
	})
}

// prepare has a claim allocated, as for a pod on the node, and prepared by the agent.
func (i *installation) prepare(t *testing.T) {
	claim := i.allocated(t, "one", "dev-0")
	if _, err := i.watcher.Prepare(t.Context(), driver, &dra.Claim{Uid: string(claim.UID), Namespace: claim.Namespace, Name: claim.Name}); err != nil {
		t.Fatalf("%v; the log ends with\n%s", err, i.log(t))
	}
	i.awaitReport(t)
}

// awaitReport waits for the status of the devices of claim one.
func (i *installation) awaitReport(t *testing.T) {
	t.Helper()
	eventually(t, "status.devices", func(ctx context.Context) (any, error) {
		claim, err := i.client.ResourceV1().ResourceClaims("default").Get(ctx, "one", metav1.GetOptions{})
		if err == nil && len(claim.Status.Devices) == 0 {
			err = fmt.Errorf("there is none; the log ends with\n%s", i.log(t))
		}
		return nil, err
	})
}

// allocated creates a claim for a device, with its allocation: schedulers are tested elsewhere.
func (i *installation) allocated(t *testing.T, name, device string) *resourceapi.ResourceClaim {
	t.Helper()
	claims := i.client.ResourceV1().ResourceClaims("default")
	claim, err := claims.Create(t.Context(), &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
			{Name: "device", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "any"}},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim.Status = resourceapi.ResourceClaimStatus{
		Allocation: &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{{Request: "device", Driver: driver, Pool: nodeName, Device: device}},
			},
			// The API server takes from it which node the claim is associated with.
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{nodeName}}},
			}}},
		},
		ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "none", UID: "none"}},
	}
	claim, err = claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

func (i *installation) shrink(t *testing.T) {
	i.hardware(t, 5)
	i.slices(t, 1, 5)
}

// damage makes the agent's files worthless, and starts it with informers that list before
// they watch, as they do when an API server cannot do both in one.
func (i *installation) damage(t *testing.T) {
	i.stop(t)
	i.damageLedgers(t)
	i.hardware(t, 6)
	i.start(t, "KUBE_FEATURE_WatchListClient=false")
	i.slices(t, 1, 6)
	i.stop(t)
}

func (i *installation) damageLedgers(t *testing.T) {
	t.Helper()
	var damaged []string
	err := filepath.WalkDir(filepath.Join(i.folder, "plugins"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && strings.Contains(path, "ledger") && filepath.Ext(path) == ".json" {
			damaged = append(damaged, path)
			err = os.WriteFile(path, []byte("{"), 0o600)
		}
		return err
	})
	if err != nil || len(damaged) == 0 {
		t.Fatalf("damaged %v (%v)", damaged, err)
	}
}

// told waits for an Event of the node that happened so often, and returns it.
func (i *installation) told(t *testing.T, reason string, count int32) *corev1.Event {
	t.Helper()
	return eventually(t, "an Event", func(ctx context.Context) (*corev1.Event, error) {
		list, err := i.client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,reason=" + reason})
		if err != nil {
			return nil, err
		}
		if len(list.Items) == 0 || list.Items[0].Count < count || list.Items[0].InvolvedObject.Name != nodeName {
			return nil, fmt.Errorf("the Events are %v, want %d of %s; the log ends with\n%s", list.Items, count, reason, i.log(t))
		}
		return &list.Items[0], nil
	})
}

// conflict has kubelet report a device that is prepared for a claim, while the ledger knows neither.
func (i *installation) conflict(t *testing.T) {
	held := i.kubelet.Hold(driver+"/dev", "dev-0")
	i.damageLedgers(t)
	i.start(t)
	if event := i.told(t, "DeviceHasTwoUsers", 1); !strings.Contains(event.Message, driver+"/"+nodeName+"/dev-0") {
		t.Errorf("the Event says %q", event.Message)
	}
	i.kubelet.Free(held)
	i.stop(t)
}

// contest has somebody else write the agent's ResourceSlice again and again. The agent is here the
// package that it is made of, which does not wait for 30 seconds each time.
func (i *installation) contest(t *testing.T) {
	source, err := inventory.ReadSimulation(filepath.Join(i.folder, "hardware.yaml"), nodeName)
	if err != nil {
		t.Fatal(err)
	}
	node, err := nodedriver.New(nodedriver.Options{
		NodeName: nodeName, Client: i.account(t, i.recorder.Address(), i.token(t)), Source: source, KubeletDir: i.folder, CDIDir: filepath.Join(i.folder, "cdi"),
		Fronts: []inventory.Front{inventory.FrontDRA}, Instance: i.pod.UID, RepairDelay: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	var running errgroup.Group
	running.Go(func() error { return node.Run(ctx) })
	slices := i.client.ResourceV1().ResourceSlices()
	running.Go(func() error {
		for ctx.Err() == nil {
			list, err := slices.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName})
			if err == nil && len(list.Items) > 0 && len(list.Items[0].Spec.Devices) > 1 {
				list.Items[0].Spec.Devices = list.Items[0].Spec.Devices[:1]
				_, err = slices.Update(ctx, &list.Items[0], metav1.UpdateOptions{FieldManager: "rival"})
			}
			if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
	// The second time, the API server counts.
	event := i.told(t, "PoolHasTwoPublishers", 2)
	if want := fmt.Sprintf(`driver %s, pool %q: field manager "rival"`, driver, nodeName); !strings.Contains(event.Message, want) {
		t.Errorf("the Event says %q, want %q", event.Message, want)
	}
	end()
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
}
