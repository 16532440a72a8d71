// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package draplugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/internal/checkpoint"
	"github.com/dray-project/dray/agent/internal/fakecluster"
	"github.com/dray-project/dray/agent/inventory"
)

// status is what a claim's status.devices says, one line for each device: its name, then its
// conditions.
func (n *node) status(t *testing.T, claim string) []string {
	t.Helper()
	stored, err := n.client.ResourceV1().ResourceClaims("ns").Get(t.Context(), claim, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, device := range stored.Status.Devices {
		line := device.Device
		for _, condition := range device.Conditions {
			line += fmt.Sprintf(" %s=%s/%s", condition.Type, condition.Status, condition.Reason)
		}
		out = append(out, line)
	}
	return out
}

func (n *node) expectStatus(t *testing.T, claim string, want ...string) {
	t.Helper()
	fakecluster.Eventually(t, fmt.Sprintf("status.devices of %s is %q", claim, want), func() bool { return slices.Equal(n.status(t, claim), want) })
}

// statusWrites are how often claims were written.
func (n *node) statusWrites() (writes int) {
	for _, action := range n.client.Actions() {
		if action.GetVerb() == "patch" && action.GetResource().Resource == "resourceclaims" && action.GetSubresource() == "status" {
			writes++
		}
	}
	return writes
}

const fine = " Ready=True/Prepared Healthy=True/Healthy"

// TestReport follows a claim from its preparation to its end.
func TestReport(t *testing.T) {
	n := newNode(t, claim("one", "gpu-0", "gpu-1"))
	in := devices("gpu-0", "gpu-1")
	in.Devices[0].Data = map[string]any{"serial": "0815"}
	in.Devices[1].Network = &resourceapi.NetworkDeviceData{InterfaceName: "eth0", HardwareAddress: "02:00:00:00:00:01", IPs: []string{"192.0.2.1/24"}}
	n.driver.Update(in)
	n.prepare(t, "one")
	n.expectStatus(t, "one", "gpu-0"+fine, "gpu-1"+fine)
	stored, err := n.client.ResourceV1().ResourceClaims("ns").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first, second := stored.Status.Devices[0], stored.Status.Devices[1]
	if first.Driver != driverName || first.Pool != nodeName || first.Data == nil || string(first.Data.Raw) != `{"serial":"0815"}` || first.NetworkData != nil {
		t.Errorf("the first device is %+v", first)
	}
	if network := second.NetworkData; network == nil || network.InterfaceName != "eth0" || network.HardwareAddress != "02:00:00:00:00:01" ||
		!slices.Equal(network.IPs, []string{"192.0.2.1/24"}) || second.Data != nil {
		t.Errorf("the second device is %+v", second)
	}

	failed := devices("gpu-0", "gpu-1")
	failed.Devices[1].Health = inventory.Health{Unhealthy: true, Reason: "EccErrors", Message: "two of them"}
	n.driver.Update(failed)
	n.expectStatus(t, "one", "gpu-0"+fine, "gpu-1 Ready=True/Prepared Healthy=False/EccErrors")
	n.driver.SourceLost(errors.New("cable pulled"))
	n.expectStatus(t, "one", "gpu-0 Ready=True/Prepared Healthy=Unknown/SourceLost", "gpu-1 Ready=True/Prepared Healthy=Unknown/SourceLost")
	n.driver.Update(devices("gpu-0"))
	n.expectStatus(t, "one", "gpu-0"+fine, "gpu-1 Ready=True/Prepared Healthy=Unknown/DeviceGone")

	if got := n.unprepare(t); got != "" {
		t.Fatal(got)
	}
	n.expectStatus(t, "one")
}

// TestReportFailure: why a claim is not prepared is in its status, until it is.
func TestReportFailure(t *testing.T) {
	n := newNode(t, claim("one", "gpu-0"), claim("two", "gpu-0"))
	n.driver.Update(devices("gpu-0"))
	n.prepare(t, "one")
	n.prepare(t, "two")
	n.expectStatus(t, "two", "gpu-0 Ready=False/PrepareFailed Healthy=True/Healthy")
	stored, err := n.client.ResourceV1().ResourceClaims("ns").Get(t.Context(), "two", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := stored.Status.Devices[0].Conditions[0].Message; !strings.Contains(got, "in use by dra one") {
		t.Errorf("the message is %q", got)
	}
	n.unprepare(t)
	n.expectStatus(t, "one")
	n.prepare(t, "two")
	n.expectStatus(t, "two", "gpu-0"+fine)
}

// TestReportIsQuiet: what changes nothing writes nothing. A last change is the
// end of what is counted, because claims are looked at in order.
func TestReportIsQuiet(t *testing.T) {
	n := newNode(t, claim("one", "gpu-0"), claim("two", "gpu-1"))
	n.driver.Update(devices("gpu-0", "gpu-1"))
	n.prepare(t, "one")
	n.expectStatus(t, "one", "gpu-0"+fine)
	before := n.statusWrites()
	for range 20 {
		n.driver.Update(devices("gpu-0", "gpu-1"))
		n.driver.LedgerChanged()
		n.prepare(t, "one")
	}
	n.prepare(t, "two")
	n.expectStatus(t, "two", "gpu-1"+fine)
	if writes := n.statusWrites() - before; writes != 1 {
		t.Errorf("%d writes, want that of the other claim", writes)
	}
}

// TestReportLeavesTheRestAlone: entries of other drivers, and conditions of others in the
// driver's entries, stay.
func TestReportLeavesTheRestAlone(t *testing.T) {
	shared := claim("one", "gpu-0")
	other := shared.Status.Allocation.Devices.Results[0]
	other.Driver, other.Device = "nic.example.com", "nic-0"
	shared.Status.Allocation.Devices.Results = append(shared.Status.Allocation.Devices.Results, other)
	shared.Status.Devices = []resourceapi.AllocatedDeviceStatus{
		{Driver: other.Driver, Pool: other.Pool, Device: other.Device, Conditions: []metav1.Condition{{Type: "Attached", Status: "True", Reason: "Attached"}}},
		{Driver: driverName, Pool: nodeName, Device: "gpu-0", Conditions: []metav1.Condition{{Type: "Bound", Status: "True", Reason: "Bound"}}},
	}
	n := newNode(t, shared)
	if ours := n.driver.ours(shared); len(ours) != 1 || ours[0].Device != "gpu-0" || len(ours[0].Conditions) > 0 {
		t.Errorf("taken for the driver's: %v", ours)
	}
	n.driver.Update(devices("gpu-0"))
	n.prepare(t, "one")
	n.expectStatus(t, "one", "nic-0 Attached=True/Attached", "gpu-0 Bound=True/Bound"+fine)
	n.unprepare(t)
	n.expectStatus(t, "one", "nic-0 Attached=True/Attached", "gpu-0 Bound=True/Bound")
}

// TestReportAfterRestart: the status of claims that were unprepared without a trace in the API
// server is removed, and that of the others kept, with its times.
func TestReportAfterRestart(t *testing.T) {
	n := newNode(t, claim("one", "gpu-0"), claim("two", "gpu-1"), claim("gone", "gpu-2"))
	n.driver.Update(devices("gpu-0", "gpu-1", "gpu-2"))
	for i, name := range []string{"one", "two", "gone"} {
		n.prepare(t, name)
		n.expectStatus(t, name, fmt.Sprintf("gpu-%d", i)+fine)
	}
	n.driver.Stop()
	// What a driver does that is killed after it unprepared a claim.
	if err := n.driver.files.Remove("two"); err != nil {
		t.Fatal(err)
	}
	claims := n.client.ResourceV1().ResourceClaims("ns")
	if err := claims.Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	old := metav1.Date(2020, 1, 1, 0, 0, 0, 0, metav1.Now().Location())
	stored, err := claims.Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range stored.Status.Devices[0].Conditions {
		stored.Status.Devices[0].Conditions[i].LastTransitionTime = old
	}
	if _, err := claims.UpdateStatus(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	n.start(t)
	failed := devices("gpu-0", "gpu-1")
	failed.Devices[0].Health.Unhealthy = true
	n.driver.Update(failed)
	n.expectStatus(t, "one", "gpu-0 Ready=True/Prepared Healthy=False/Unhealthy")
	n.expectStatus(t, "two")
	if stored, err = claims.Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	conditions := stored.Status.Devices[0].Conditions
	if !conditions[0].LastTransitionTime.Equal(&old) || conditions[1].LastTransitionTime.Equal(&old) {
		t.Errorf("transitions at %s and %s, only the second changed", conditions[0].LastTransitionTime, conditions[1].LastTransitionTime)
	}
	fakecluster.Eventually(t, "the checkpoint has the one claim that is prepared", func() bool {
		left, err := checkpoint.Read[map[string]claimName](filepath.Join(n.dir, "p", "reports.json"))
		return err == nil && len(left) == 1 && left["one"] == claimName{"ns", "one"}
	})
	// It is still known to be prepared when something changes again.
	n.driver.Update(devices("gpu-0", "gpu-1"))
	n.expectStatus(t, "one", "gpu-0"+fine)
}

// TestReportOnDamagedCheckpoint: a driver that does not know what it wrote says so, and starts.
func TestReportOnDamagedCheckpoint(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "reports.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := openReports(dir)
	var damaged *checkpoint.DamagedError
	if !errors.As(err, &damaged) || len(r.claims) > 0 {
		t.Fatalf("got %v, with %d claims", err, len(r.claims))
	}
	if err := r.set(claim("one", "gpu-0"), nil, claim("one", "gpu-0").Status.Allocation.Devices.Results, nil); err != nil {
		t.Fatal(err)
	}
	if again, err := openReports(dir); err != nil || len(again.claims) != 1 {
		t.Errorf("got %v, with %d claims", err, len(again.claims))
	}
}

// told collects what a driver says of errors in the background.
type told struct {
	mutex  sync.Mutex
	errors []string
}

func (o *told) add(_ context.Context, err error, _ string) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.errors = append(o.errors, err.Error())
}

func (o *told) count(text string) (count int) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for _, err := range o.errors {
		if strings.Contains(err, text) {
			count++
		}
	}
	return count
}

// TestReportIsRepeated: requests that fail are made again, and claims are prepared meanwhile.
func TestReportIsRepeated(t *testing.T) {
	n := newNode(t, claim("one", "gpu-0"))
	var errs told
	n.driver.options.OnError = errs.add // before the first Update nothing is written
	var mutex sync.Mutex
	failures := []error{
		errors.New("connection refused"),
		apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "one", errors.New("resourceclaims/driver")),
	}
	n.client.PrependReactor("patch", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		mutex.Lock()
		defer mutex.Unlock()
		if len(failures) == 0 {
			return false, nil, nil
		}
		err := failures[0]
		failures = failures[1:]
		return true, nil, err
	})
	n.driver.Update(devices("gpu-0"))
	if got := n.prepare(t, "one"); got.Error != "" {
		t.Errorf("not prepared: %s", got.Error)
	}
	n.expectStatus(t, "one", "gpu-0"+fine)
	for _, want := range []string{"claim ns/one: connection refused", "resourceclaims/driver"} {
		if errs.count(want) != 1 {
			t.Errorf("told %q, want %q once", errs.errors, want)
		}
	}
}

// TestReportIsDropped: an API server without the feature is asked once for each change, and
// told of once.
func TestReportIsDropped(t *testing.T) {
	n := newNode(t, claim("one", "gpu-0"), claim("two", "gpu-1"))
	var errs told
	n.driver.options.OnError = errs.add
	n.client.PrependReactor("patch", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		stored, err := n.client.Tracker().Get(action.GetResource(), "ns", action.(clienttesting.PatchAction).GetName())
		return true, stored, err
	})
	n.driver.Update(devices("gpu-0", "gpu-1"))
	n.prepare(t, "one")
	fakecluster.Eventually(t, "an attempt", func() bool { return n.statusWrites() == 1 })
	for range 5 {
		n.driver.LedgerChanged()
		n.prepare(t, "one")
	}
	n.prepare(t, "two")
	fakecluster.Eventually(t, "an attempt for the other claim", func() bool { return n.statusWrites() == 2 })
	if count := errs.count("DRAResourceClaimDeviceStatus is off"); count != 1 {
		t.Errorf("told %d times: %q", count, errs.errors)
	}
}

// TestWanted has what is hard to come by: shares, devices of several requests, reasons that
// are made valid, and messages that are too long.
func TestWanted(t *testing.T) {
	d := &Driver{options: Options{DriverName: driverName}}
	share, now := "6a6c1f4e-3c0b-4d53-a9ad-a1b8b0a1f3b0", metav1.Now().Rfc3339Copy()
	results := claim("one", "gpu-0", "gpu-0", "gpu-0").Status.Allocation.Devices.Results
	results[2].ShareID = ptr.To(types.UID(share))
	in := devices("gpu-0")
	in.Devices[0].Health = inventory.Health{Unhealthy: true, Reason: "ecc.errors-2"}
	got := d.wanted(observed{results: results, failure: errors.New(strings.Repeat("ü", 40000)), in: in}, nil, now)
	if len(got) != 2 || got[0].ShareID != nil || *got[1].ShareID != share {
		t.Fatalf("entries %+v", got)
	}
	ready, healthy := got[0].Conditions[0], got[0].Conditions[1]
	if len(ready.Message) != 32768 || ready.LastTransitionTime != now || healthy.Reason != "ecc_errors_2" || healthy.Status != metav1.ConditionFalse {
		t.Errorf("a message of %d bytes, reason %q", len(ready.Message), healthy.Reason)
	}
	in.Devices[0].Data = map[string]any{"broken": func() {}}
	in.Devices[0].Network = &resourceapi.NetworkDeviceData{InterfaceName: strings.Repeat("e", 257), HardwareAddress: "02:00:00:00:00:01"}
	got = d.wanted(observed{results: results, in: in}, nil, now)
	if got[0].Data != nil || got[0].NetworkData.InterfaceName != "" || got[0].NetworkData.HardwareAddress == "" || len(got[0].Conditions) != 2 {
		t.Errorf("what cannot be reported is not left out alone: %+v", got[0])
	}
}

// TestReportRetries: the pause after a failure doubles up to five minutes, and begins anew after a success.
func TestReportRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := new(told)
		d := &Driver{options: Options{OnError: errs.add}, reports: new(reports)}
		known := &report{claimName: claimName{Namespace: "ns", Name: "one"}, version: 1}
		pauses := func(n int) (list []time.Duration) {
			for range n {
				list = append(list, time.Until(d.endAttempt(t.Context(), known, 1, errors.New("no"))))
			}
			return list
		}
		if got, want := pauses(4), []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("pauses %v, want %v", got, want)
		}
		if got := pauses(30); got[29] != 5*time.Minute {
			t.Errorf("the last pause is %v", got[29])
		}
		if due := d.endAttempt(t.Context(), known, 1, nil); !due.IsZero() {
			t.Errorf("after a success, the next attempt is due at %v", due)
		}
		if got := pauses(1); got[0] != time.Second {
			t.Errorf("after a success, the pause is %v", got[0])
		}
		// What changed meanwhile is reported at once.
		known.version, known.due = 2, time.Time{}
		if due := d.endAttempt(t.Context(), known, 1, errors.New("no")); !due.IsZero() {
			t.Errorf("after a change, the next attempt is due at %v", due)
		}
		if errs.count("claim ns/one: no") != 36 {
			t.Errorf("%d errors were told", errs.count("claim ns/one: no"))
		}
	})
}
