// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package draplugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	resourceapply "k8s.io/client-go/applyconfigurations/resource/v1"

	"github.com/dray-project/dray/agent/internal/checkpoint"
	"github.com/dray-project/dray/agent/inventory"
)

const (
	// reportInterval is the shortest time between two looks at all claims.
	reportInterval = 250 * time.Millisecond
	// reportTimeout is how long one request may take.
	reportTimeout = 30 * time.Second
	// A claim whose status was not written is written again after firstReportRetry, which
	// doubles with each failure until it is lastReportRetry.
	firstReportRetry = time.Second
	lastReportRetry  = 5 * time.Minute
)

// errStatusDropped says that the API server took the status and did not keep it.
var errStatusDropped = errors.New("the API server does not keep status.devices of claims: its feature gate DRAResourceClaimDeviceStatus is off")

// reports are the claims whose status.devices has entries of the driver, or is to have
// some. Whoever adds and removes claims waits for no request.
type reports struct {
	path    string // of the checkpoint
	dropped bool   // errStatusDropped was told; only the goroutine of reportAll has it

	mutex   sync.Mutex
	claims  map[types.UID]*report
	changed chan struct{} // gets a value with each change
}

// claimName is what the checkpoint has of a claim, by UID.
type claimName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// report is what one claim's status says, and is to say.
type report struct {
	claimName
	results []resourceapi.DeviceRequestAllocationResult // none: no entries are wanted
	failure error                                       // why they are not prepared
	version int                                         // counts changes of results and failure
	due     time.Time                                   // of the next attempt after a failure; zero: at the next look

	// The rest belongs to the goroutine of reportAll.
	known    bool // reported is what the API server has
	reported []resourceapi.AllocatedDeviceStatus
	failed   int // attempts since the last that succeeded
}

// openReports finds the claims of an earlier process. Only their names are known. If the
// checkpoint is damaged, entries of claims that were unprepared since may stay until
// the claims are deallocated.
func openReports(folder string) (*reports, error) {
	r := &reports{path: filepath.Join(folder, "reports.json"), claims: make(map[types.UID]*report), changed: make(chan struct{}, 1)}
	stored, err := checkpoint.Read[map[types.UID]claimName](r.path)
	for uid, name := range stored {
		r.claims[uid] = &report{claimName: name}
	}
	return r, err
}

// set has the status of a claim say how the driver's devices are. reported is what it says
// at the moment. The claim is in the checkpoint before anything is written.
func (r *reports) set(claim *resourceapi.ResourceClaim, reported []resourceapi.AllocatedDeviceStatus, results []resourceapi.DeviceRequestAllocationResult, failure error) (err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	known := r.claims[claim.UID]
	if known == nil {
		if len(results) == 0 {
			return nil
		}
		known = &report{claimName: claimName{claim.Namespace, claim.Name}, known: true, reported: reported}
		r.claims[claim.UID] = known
		err = r.save()
	}
	known.results, known.failure, known.due = results, failure, time.Time{}
	known.version++
	r.wake()
	return err
}

// narrow leaves out results that a claim does not have any more, unless it was set meanwhile.
func (r *reports) narrow(known *report, version int, results []resourceapi.DeviceRequestAllocationResult) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if known.version == version {
		known.results = results
	}
}

// remove has the entries of a claim removed.
func (r *reports) remove(claim types.UID) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if known := r.claims[claim]; known != nil {
		known.results, known.failure, known.due = nil, nil, time.Time{}
		known.version++
		r.wake()
	}
}

func (r *reports) wake() {
	select {
	case r.changed <- struct{}{}:
	default: // the last one was not looked at yet
	}
}

// save is called with the lock held.
func (r *reports) save() error {
	names := make(map[types.UID]claimName, len(r.claims))
	for uid, known := range r.claims {
		names[uid] = known.claimName
	}
	return checkpoint.Write(r.path, names)
}

// forget is for claims that have no entries any more. One that was prepared again
// meanwhile stays.
func (r *reports) forget(claim types.UID, version int) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if known := r.claims[claim]; known == nil || known.version != version {
		return nil
	}
	delete(r.claims, claim)
	return r.save()
}

// report writes the status of claims when it changes, until ctx ends.
func (d *Driver) report(ctx context.Context) {
	for {
		in, changed, lost := d.current()
		var again <-chan time.Time
		if in != nil {
			if next := d.reportAll(ctx, in, lost); !next.IsZero() {
				again = time.After(time.Until(next))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-d.reports.changed:
		case <-again:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(reportInterval):
		}
	}
}

// reportAll looks at each claim once, and returns when it must do so again; zero: when
// something changes.
func (d *Driver) reportAll(ctx context.Context, in *inventory.Inventory, lost error) (next time.Time) {
	r := d.reports
	r.mutex.Lock()
	claims := slices.Sorted(maps.Keys(r.claims))
	r.mutex.Unlock()
	for _, uid := range claims {
		r.mutex.Lock()
		known := r.claims[uid]
		o, version, due := observed{known.results, known.failure, in, lost}, known.version, known.due
		r.mutex.Unlock()
		if time.Until(due) <= 0 {
			err := d.reportOne(ctx, uid, known, o, version)
			if ctx.Err() != nil {
				return time.Time{}
			}
			due = d.reported(ctx, known, version, err)
		}
		if !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return next
}

// reported notes how an attempt ended, and returns when the next one is due.
func (d *Driver) reported(ctx context.Context, known *report, version int, err error) (due time.Time) {
	if err == nil {
		known.failed = 0
	} else {
		d.options.OnError(ctx, fmt.Errorf("claim %s/%s: %w", known.Namespace, known.Name, err), "writing the status of devices")
		known.known = false // it may have taken effect, or the claim is not what it was
		due = time.Now().Add(min(firstReportRetry<<min(known.failed, 20), lastReportRetry))
		known.failed++
	}
	d.reports.mutex.Lock()
	defer d.reports.mutex.Unlock()
	if known.version == version {
		known.due = due
	}
	return known.due
}

// reportOne writes the status of a claim if it is not what it is to be.
func (d *Driver) reportOne(ctx context.Context, uid types.UID, known *report, o observed, version int) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if !known.known {
		stored, err := d.options.KubeClient.ResourceV1().ResourceClaims(known.Namespace).Get(ctx, known.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && stored.UID != uid:
			return d.reports.forget(uid, version)
		case err != nil:
			return err
		}
		known.known, known.reported = true, d.ours(stored)
		o.results = d.allocated(stored, o.results, version)
		d.reports.narrow(known, version, o.results)
	}
	want := d.wanted(o, known.reported, metav1.Now().Rfc3339Copy())
	var err error
	if !equality.Semantic.DeepEqual(want, known.reported) {
		err = d.apply(ctx, uid, known, want)
	}
	if apierrors.IsNotFound(err) || err == nil && len(want) == 0 {
		return d.reports.forget(uid, version)
	}
	return err
}

// allocated are the results that the claim still has: the API server refuses entries of
// others. Nobody has prepared a claim of version 0 in this process; if its CDI file
// is there, an earlier one did.
func (d *Driver) allocated(stored *resourceapi.ResourceClaim, results []resourceapi.DeviceRequestAllocationResult, version int) []resourceapi.DeviceRequestAllocationResult {
	now := d.resultsOf(stored)
	if version == 0 {
		if _, err := os.Stat(d.files.Path(string(stored.UID))); err == nil {
			return now
		}
		return nil
	}
	return slices.DeleteFunc(slices.Clone(results), func(result resourceapi.DeviceRequestAllocationResult) bool {
		return !slices.ContainsFunc(now, func(other resourceapi.DeviceRequestAllocationResult) bool {
			return keyOfResult(&other) == keyOfResult(&result)
		})
	})
}

// apply makes the driver's entries what is wanted. Others may have conditions of their own
// in them, and entries of other drivers are theirs: server-side apply leaves both alone.
func (d *Driver) apply(ctx context.Context, uid types.UID, known *report, want []resourceapi.AllocatedDeviceStatus) error {
	claim := ApplyReport(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: known.Namespace, Name: known.Name, UID: uid}}, want)
	stored, err := d.options.KubeClient.ResourceV1().ResourceClaims(known.Namespace).ApplyStatus(ctx, claim,
		metav1.ApplyOptions{FieldManager: d.options.DriverName, Force: true})
	if err != nil {
		return err
	}
	known.reported = want
	if len(d.ours(stored)) < len(want) && !d.reports.dropped {
		d.reports.dropped = true
		d.options.OnError(ctx, errStatusDropped, "writing the status of devices")
	}
	return nil
}

func entry(status *resourceapi.AllocatedDeviceStatus) *resourceapply.AllocatedDeviceStatusApplyConfiguration {
	out := resourceapply.AllocatedDeviceStatus().WithDriver(status.Driver).WithPool(status.Pool).WithDevice(status.Device)
	out.ShareID = status.ShareID
	for _, condition := range status.Conditions {
		out.WithConditions(metaapply.Condition().WithType(condition.Type).WithStatus(condition.Status).
			WithReason(condition.Reason).WithMessage(condition.Message).WithLastTransitionTime(condition.LastTransitionTime))
	}
	if status.Data != nil {
		out.WithData(*status.Data)
	}
	if network := status.NetworkData; network != nil {
		data := resourceapply.NetworkDeviceData().WithIPs(network.IPs...)
		if network.InterfaceName != "" {
			data.WithInterfaceName(network.InterfaceName)
		}
		if network.HardwareAddress != "" {
			data.WithHardwareAddress(network.HardwareAddress)
		}
		out.WithNetworkData(data)
	}
	return out
}
