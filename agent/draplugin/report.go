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
	// reportInterval is the shortest time between two passes over all claims.
	reportInterval = 250 * time.Millisecond
	// reportTimeout limits the requests for one claim.
	reportTimeout = 30 * time.Second
	// Limits of the backoff after a status could not be written.
	firstReportRetry = time.Second
	lastReportRetry  = 5 * time.Minute
)

// errStatusDropped says that the API server accepted the status, but did not store it.
var errStatusDropped = errors.New("the API server does not keep status.devices of claims: its feature gate DRAResourceClaimDeviceStatus is off")

// reports has the claims whose status.devices has, or must get, entries of the driver. Adding and
// removing claims does not wait for requests.
type reports struct {
	path    string // of the checkpoint
	dropped bool   // errStatusDropped was reported; only the goroutine of reportAll accesses it

	mutex   sync.Mutex
	claims  map[types.UID]*report
	changed chan struct{} // gets a value with each change
}

// claimName is a claim in the checkpoint, by UID.
type claimName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// report has the desired and the stored entries of one claim's status.
type report struct {
	claimName
	results []resourceapi.DeviceRequestAllocationResult // devices for which entries are wanted
	failure error                                       // why the claim is not prepared, or nil
	version int                                         // counts changes of results and failure
	due     time.Time                                   // time of the next attempt after a failure; zero: with the next pass

	// Only the goroutine of reportAll accesses the fields below.
	known    bool // reported is what the API server has stored
	reported []resourceapi.AllocatedDeviceStatus
	failed   int // failed attempts in a row
}

// openReports reads the checkpoint of an earlier process, which has only names of claims. If it is
// damaged, entries of claims that were unprepared since may remain until the claims are
// deallocated.
func openReports(folder string) (*reports, error) {
	r := &reports{path: filepath.Join(folder, "reports.json"), claims: make(map[types.UID]*report), changed: make(chan struct{}, 1)}
	stored, err := checkpoint.Read[map[types.UID]claimName](r.path)
	for uid, name := range stored {
		r.claims[uid] = &report{claimName: name}
	}
	return r, err
}

// set requests entries for the driver's devices in a claim's status. reported has the entries that
// are stored now. The claim is in the checkpoint before the status is written.
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

// narrow removes results that the claim no longer has. It does nothing if set was called since
// version.
func (r *reports) narrow(known *report, version int, results []resourceapi.DeviceRequestAllocationResult) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if known.version == version {
		known.results = results
	}
}

// remove requests that the entries of a claim are removed.
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
	default: // a value is already in the channel
	}
}

// save writes the checkpoint. The caller holds the lock.
func (r *reports) save() error {
	names := make(map[types.UID]claimName, len(r.claims))
	for uid, known := range r.claims {
		names[uid] = known.claimName
	}
	return checkpoint.Write(r.path, names)
}

// forget removes a claim that has no entries any more. It does nothing if the claim was prepared
// again since version.
func (r *reports) forget(claim types.UID, version int) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if known := r.claims[claim]; known == nil || known.version != version {
		return nil
	}
	delete(r.claims, claim)
	return r.save()
}

// report writes the status of claims when entries change, until ctx ends.
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

// reportAll makes one pass over all claims. It returns when the next one is due, or zero if only
// after a change.
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
			due = d.endAttempt(ctx, known, version, err)
		}
		if !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return next
}

// endAttempt records the result of an attempt, and returns when the next one is due.
func (d *Driver) endAttempt(ctx context.Context, known *report, version int, err error) (due time.Time) {
	if err == nil {
		known.failed = 0
	} else {
		d.options.OnError(ctx, fmt.Errorf("claim %s/%s: %w", known.Namespace, known.Name, err), "writing the status of devices")
		known.known = false // the request may have succeeded, or the claim was changed by others
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

// reportOne writes the status of a claim if it differs from the desired one.
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

// allocated returns the results that the claim still has, because the API server refuses entries of
// other devices. Version 0 means that this process has not prepared the claim. If its CDI file
// exists, an earlier process has.
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

// apply writes the driver's entries by server-side apply, which leaves alone entries of other
// drivers and conditions of other writers.
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
