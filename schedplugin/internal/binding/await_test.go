// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/metrics/legacyregistry"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/dray-project/dray/schedplugin/internal/claimstate"
)

// conditional is a claim with a device that needs condition "ready" and fails with "broken", of which one is reported, if any.
func conditional(reported string) *resourceapi.ResourceClaim {
	claim := boundClaim(allocationOf("gpu-0")).Object
	result := &claim.Status.Allocation.Devices.Results[0]
	result.BindingConditions, result.BindingFailureConditions = []string{"ready"}, []string{"broken"}
	if reported != "" {
		claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
			Driver: result.Driver, Pool: result.Pool, Device: result.Device, Conditions: []metav1.Condition{{Type: reported, Status: metav1.ConditionTrue}},
		}}
	}
	return claim
}

func TestAwaitsDevices(t *testing.T) {
	plain, waits := boundClaim(allocationOf("gpu-0")), &claimstate.Claim{Object: conditional("")}
	for name, test := range map[string]struct {
		conditions bool
		claims     []*claimstate.Claim
		want       bool
	}{
		"none":         {true, nil, false},
		"plain":        {true, []*claimstate.Claim{plain}, false},
		"one of two":   {true, []*claimstate.Claim{plain, waits}, true},
		"switched off": {false, []*claimstate.Claim{waits}, false},
	} {
		if got := (&Writer{Conditions: test.conditions}).AwaitsDevices(test.claims); got != test.want {
			t.Errorf("%s: waits %t", name, got)
		}
	}
}

// counters has the counts of allocations with binding conditions that ended somehow, by status.
func counters(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]float64)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := make(map[string]string)
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["profile"] != "await" || labels["driver"] != "gpu.example.com" {
				continue
			}
			if family.GetName() == "scheduler_dra_bindingconditions_allocations_total" {
				counts[labels["status"]] += metric.GetCounter().GetValue()
			}
			if family.GetName() == "scheduler_dra_bindingconditions_wait_duration_seconds" {
				counts["seconds"] += metric.GetHistogram().GetSampleSum()
				counts["waits"] += float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return counts
}

// Devices are waited for until they are ready or failed, or for as long as they may take from when they were allocated.
func TestAwaitDevices(t *testing.T) {
	schedmetrics.Register()
	const unready = "device gpu.example.com/p/gpu-0: not ready"
	for name, test := range map[string]struct {
		becomes   map[time.Duration]string // what is reported after a time
		allocated time.Duration            // before the wait; 0 if nobody noted it
		took      time.Duration
		err       error
		says      []string
		status    string
	}{
		"ready at once":    {map[time.Duration]string{0: "ready"}, time.Minute, 0, nil, nil, "success"},
		"ready later":      {map[time.Duration]string{3 * time.Second: "ready"}, 0, 3 * time.Second, nil, nil, "success"},
		"failed":           {map[time.Duration]string{2 * time.Second: "broken"}, 0, 2 * time.Second, claimstate.ErrBindingFailed, []string{"claim=one", unready}, "failure"},
		"never ready":      {nil, 0, 10 * time.Second, claimstate.ErrBindingTimeout, []string{unready}, "timeout"},
		"allocated before": {nil, 4 * time.Second, 6*time.Second + pollInterval, claimstate.ErrBindingTimeout, []string{"claim=one", unready}, "timeout"},
		"replaced":         {map[time.Duration]string{time.Second: "replaced"}, 0, time.Second, nil, []string{"claim default/one was deallocated meanwhile"}, "error"},
		"gone":             {map[time.Duration]string{time.Second: "gone"}, 0, time.Second, nil, []string{`"one" not found`}, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			before := counters(t)
			synctest.Test(t, func(t *testing.T) {
				start, claim := time.Now(), conditional("")
				if test.allocated > 0 {
					claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: start.Add(-test.allocated)}
				}
				dra := &claimSink{claims: map[string]*resourceapi.ResourceClaim{"one": claim}}
				for after, reported := range test.becomes {
					change := func() {
						switch dra.claims["one"] = conditional(reported); reported {
						case "gone":
							delete(dra.claims, "one")
						case "replaced":
							dra.claims["one"].UID = "another"
						}
					}
					if after == 0 {
						change()
						continue
					}
					time.AfterFunc(after-time.Millisecond, change)
				}
				w := writer(fake.NewClientset(), dra)
				w.Conditions, w.Timeout, w.Profile = true, 10*time.Second, "await"
				err := w.AwaitDevices(t.Context(), []*claimstate.Claim{extendedClaim(t), {Object: claim}})
				if took := time.Since(start); took != test.took {
					t.Errorf("it took %s, want %s", took, test.took)
				}
				if (err != nil) != (len(test.says) > 0) || test.err != nil && !errors.Is(err, test.err) {
					t.Errorf("error %v, want %v", err, test.err)
				}
				for _, phrase := range test.says {
					if err != nil && !strings.Contains(err.Error(), phrase) {
						t.Errorf("error %v says nothing of %q", err, phrase)
					}
				}
				if name == "gone" && !apierrors.IsNotFound(err) {
					t.Errorf("error %v", err)
				}
			})
			after := counters(t)
			for status, want := range map[string]float64{test.status: 1, "seconds": test.took.Seconds(), "waits": 1} {
				if got := after[status] - before[status]; got != want {
					t.Errorf("%s: %v counted, want %v", status, got, want)
				}
			}
		})
	}
}

// A wait that is broken off is an error, which is no timeout of devices.
func TestAwaitDevicesBrokenOff(t *testing.T) {
	schedmetrics.Register()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dra := &claimSink{claims: map[string]*resourceapi.ResourceClaim{"one": conditional("")}}
	w := writer(fake.NewClientset(), dra)
	w.Conditions, w.Timeout = true, time.Hour
	err := w.AwaitDevices(ctx, []*claimstate.Claim{{Object: conditional("")}})
	if !errors.Is(err, context.Canceled) || errors.Is(err, claimstate.ErrBindingTimeout) {
		t.Errorf("error %v", err)
	}
}

// A claim is deallocated when the pod is deleted. Then nothing is to be waited for.
func TestAwaitDevicesOfClaimThatIsDeallocated(t *testing.T) {
	schedmetrics.Register()
	free := conditional("")
	free.Status = resourceapi.ResourceClaimStatus{}
	w := writer(fake.NewClientset(), &claimSink{claims: map[string]*resourceapi.ResourceClaim{"one": free}})
	w.Conditions, w.Timeout = true, time.Hour
	err := w.AwaitDevices(t.Context(), []*claimstate.Claim{{Object: conditional("")}})
	if err == nil || !strings.Contains(err.Error(), "claim default/one was deallocated meanwhile") {
		t.Errorf("error %v", err)
	}
}
