// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/agent/resourceslice"
	"github.com/dray-project/dray/internal/dev/faults"
)

// TestFaults has each kind of write fail twice in each way. Whatever it was, the pool is
// as desired in the end, complete, of one generation, and without slices too many.
func TestFaults(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		for _, status := range []int{0, 409, 422, 429, 500, 503, 504} {
			t.Run(fmt.Sprintf("%s %d", method, status), func(t *testing.T) {
				t.Parallel()
				p := publish(t)
				p.Update(pool("a", "b", "c"))
				p.becomes(t, "pool: a | b | c")
				p.proxy.Inject(faults.Fault{Methods: []string{method}, Path: onSlices, Times: 2, Status: status})
				// One slice less, then one more: each kind of write is needed.
				p.Update(pool("x", "y"))
				p.becomes(t, "pool: x | y")
				p.Update(pool("x", "y", "z"))
				p.becomes(t, "pool: x | y | z")
				// A write whose answer was lost need not be repeated if the watch shows it.
				if spoilt := p.proxy.Heal(); spoilt != 2 && (spoilt != 1 || status != 0) {
					t.Errorf("%d requests failed, want 2", spoilt)
				}
				// That a delete whose answer was lost is repeated is no error.
				if method != http.MethodDelete || status != 0 {
					p.isTold(t)
				}
				for _, err := range p.told() {
					if !strings.HasPrefix(err.Error(), `pool "pool": `) {
						t.Errorf("error %q does not name the pool", err)
					}
				}
			})
		}
	}
}

// TestConflict: somebody edits a slice while the controller's update is on its way. The API
// server refuses the update, and the edit is gone with the next.
func TestConflict(t *testing.T) {
	t.Parallel()
	p := publish(t)
	p.Update(pool("a"))
	p.becomes(t, "pool: a")
	hold := p.proxy.Hold(faults.Fault{Methods: []string{http.MethodPut}, Path: onSlices})
	p.Update(pool("b"))
	<-hold.Arrived()
	edited := p.stored(t)[0]
	edited.Spec.Devices = append(edited.Spec.Devices, resourceapi.Device{Name: "by-hand"})
	if _, err := client.ResourceV1().ResourceSlices().Update(t.Context(), &edited, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	hold.Release()
	p.becomes(t, "pool: b")
	if !slices.ContainsFunc(p.told(), apierrors.IsConflict) {
		t.Errorf("no conflict among %v", p.told())
	}
}

// TestInvalid: the API server refuses one pool. The others are published, and the pool is
// once it is valid.
func TestInvalid(t *testing.T) {
	t.Parallel()
	p := publish(t)
	p.Update(pools(map[string][]string{"bad": {"Not-A-Label"}, "good": {"a"}}))
	p.becomes(t, "good: a")
	if told := p.isTold(t); !strings.Contains(told[0].Error(), `pool "bad": slice 0: create ResourceSlice: `) || !strings.Contains(told[0].Error(), "Not-A-Label") {
		t.Errorf("errors %v", told)
	}
	p.Update(pools(map[string][]string{"bad": {"a-label"}, "good": {"a"}}))
	p.becomes(t, "bad: a-label; good: a")
}

// TestRepair: slices that somebody deletes or edits are put right.
func TestRepair(t *testing.T) {
	t.Parallel()
	p := publish(t)
	p.Update(pool("a", "b"))
	p.becomes(t, "pool: a | b")
	if err := client.ResourceV1().ResourceSlices().Delete(t.Context(), p.stored(t)[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.becomes(t, "pool: a | b")
	edited := p.stored(t)[1]
	edited.Spec.Devices = nil
	if _, err := client.ResourceV1().ResourceSlices().Update(t.Context(), &edited, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.becomes(t, "pool: a | b")
}

// TestDroppedFields: the driver is told which feature gates are off, and what the API
// server cannot store is not written again and again.
func TestDroppedFields(t *testing.T) {
	t.Parallel()
	p := publish(t)
	desired := pool("a", "b")
	slice := &desired.Pools["pool"].Slices[0]
	slice.PartitionTypeAttribute = ptr.To(resourceapi.FullyQualifiedName("example.com/profile"))
	slice.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
	p.Update(desired)
	p.becomes(t, "pool: a | b")
	var dropped *resourceslice.DroppedFieldsError
	if told := p.isTold(t); len(told) != 1 || !errors.As(told[0], &dropped) ||
		!slices.Equal(dropped.DisabledFeatures(), []string{"DRAPartitionableDevicesType", "DRAOptionalNodeOperations"}) {
		t.Fatalf("errors %v", told)
	}
	// An event of the slice has the pool looked at. Its last slice is changed afterwards:
	// that is the one write there may be.
	touched := p.stored(t)[0]
	touched.Labels = map[string]string{"touched": "yes"}
	if _, err := client.ResourceV1().ResourceSlices().Update(t.Context(), &touched, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.ResourceV1().ResourceSlices().Delete(t.Context(), p.stored(t)[1].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.becomes(t, "pool: a | b")
	// The API server stores a write before the controller has its answer, and counts it.
	want := resourceslice.Stats{NumCreates: 3, NumUpdates: 1}
	for deadline := time.Now().Add(patience); p.GetStats() != want && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if stats := p.GetStats(); stats != want {
		t.Errorf("writes %+v: want two creates, one for the slice that was deleted, and an update for its generation", stats)
	}
}

// TestWithdraw deletes what was published, although requests fail.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	p := publish(t)
	p.Update(pools(map[string][]string{"p": {"a", "b"}, "q": {"c"}}))
	p.becomes(t, "p: a | b; q: c")
	p.proxy.Inject(faults.Fault{Methods: []string{http.MethodDelete}, Path: onSlices, Times: 2, Status: 500})
	for {
		err := p.Withdraw(t.Context())
		if err == nil {
			break
		}
		if !apierrors.IsInternalError(err) && !strings.Contains(err.Error(), "fault injected") {
			t.Fatal(err)
		}
	}
	p.becomes(t, "")
}

// TestRestart kills the API server, which is why it is not parallel to others. What changes
// while it is down is published when it is back.
func TestRestart(t *testing.T) {
	p := publish(t)
	p.Update(pool("a", "b"))
	p.becomes(t, "pool: a | b")
	for i := range 3 {
		if err := plane.KillAPIServer(); err != nil {
			t.Fatal(err)
		}
		last := fmt.Sprintf("c-%d", i)
		p.Update(pool("x", last))
		if err := plane.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.becomes(t, "pool: x | "+last)
	}
	// The watch works again.
	if err := client.ResourceV1().ResourceSlices().Delete(t.Context(), p.stored(t)[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.becomes(t, "pool: x | c-2")
}
