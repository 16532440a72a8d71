// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/agent/internal/checkpoint"
)

// DamagedError says that the checkpoint is damaged. It is then unknown which claims are prepared.
type DamagedError = checkpoint.DamagedError

// claimRecord is the state of one claim on this node. It is immutable once stored.
type claimRecord struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// Pods use the claim on this node. If there are none, the claim must be unprepared.
	Pods []types.UID `json:"pods,omitempty"`
	// Drivers may have been called to prepare the claim.
	Drivers map[string]driverRecord `json:"drivers"`
}

// driverRecord is the state of one driver for a claim.
type driverRecord struct {
	// Prepared is set when the driver has prepared the claim since this process started. What an
	// earlier process had prepared may be lost, as CDI files are when the node is rebooted.
	Prepared bool `json:"-"`
	// SkipPrepare says that the driver need not be called to prepare, and SkipUnprepare that it
	// need not be called to unprepare.
	SkipPrepare   bool     `json:"skipPrepare,omitempty"`
	SkipUnprepare bool     `json:"skipUnprepare,omitempty"`
	Devices       []device `json:"devices,omitempty"`
	// Exclusive are the allocated devices that no other claim may have, with pool and name only.
	Exclusive []device `json:"exclusive,omitempty"`
}

// isReady tells whether pods can use the driver's devices.
func (d *driverRecord) isReady() bool { return d.Prepared || d.SkipPrepare }

// device is a device that a driver prepared.
type device struct {
	// Requests are the claim's requests that the device is for. If there are none, it is for all.
	Requests []string `json:"requests,omitempty"`
	CDI      []string `json:"cdi,omitempty"`
	Pool     string   `json:"pool,omitempty"`
	Device   string   `json:"device,omitempty"`
}

// with returns a copy of the record with another pod.
func (r *claimRecord) with(pod types.UID) *claimRecord {
	out := *r
	if !slices.Contains(r.Pods, pod) {
		out.Pods = append(slices.Clone(r.Pods), pod)
	}
	return &out
}

// without returns a copy of the record without a pod.
func (r *claimRecord) without(pod types.UID) *claimRecord {
	out := *r
	out.Pods = slices.DeleteFunc(slices.Clone(r.Pods), func(other types.UID) bool { return other == pod })
	return &out
}

// withDriver returns a copy of the record with another state of a driver. nil removes it.
func (r *claimRecord) withDriver(name string, driver *driverRecord) *claimRecord {
	out := *r
	out.Drivers = maps.Clone(r.Drivers)
	if driver == nil {
		delete(out.Drivers, name)
	} else {
		out.Drivers[name] = *driver
	}
	return &out
}

func (r *claimRecord) driverNames() []string { return slices.Sorted(maps.Keys(r.Drivers)) }

// newRecord returns the record of a claim for which no driver was called yet.
func newRecord(claim *resourceapi.ResourceClaim) *claimRecord {
	return &claimRecord{UID: claim.UID, Namespace: claim.Namespace, Name: claim.Name, Drivers: driversOf(claim)}
}

// conflict returns why the devices of a claim cannot be prepared yet, or an empty text. When a pod is
// deleted by force, its devices are allocated to other claims before a driver has unprepared them here.
func (r *records) conflict(wanted *claimRecord) string {
	for _, other := range r.all(func(other *claimRecord) bool { return other.UID != wanted.UID }) {
		for _, driver := range wanted.driverNames() {
			for _, device := range wanted.Drivers[driver].Exclusive {
				if slices.ContainsFunc(other.Drivers[driver].Exclusive, device.isSameAs) {
					return fmt.Sprintf("device %s/%s/%s is still prepared for claim %s/%s", driver, device.Pool, device.Device, other.Namespace, other.Name)
				}
			}
		}
	}
	return ""
}

// isOf tells whether the record is of the allocation from which the other one was made. A claim may
// be allocated anew while a pod that was deleted by force still has its earlier devices. Records of
// older checkpoints have no devices.
func (r *claimRecord) isOf(allocated *claimRecord) bool {
	for name, driver := range allocated.Drivers {
		before := r.Drivers[name].Exclusive
		if len(before) > 0 && !slices.EqualFunc(before, driver.Exclusive, func(a, b device) bool { return a.isSameAs(b) }) {
			return false
		}
	}
	return true
}

// isSameAs tells whether both are the same device of one driver.
func (d *device) isSameAs(other device) bool { return d.Pool == other.Pool && d.Device == other.Device }

// records has the records of all claims, and writes them to a checkpoint.
type records struct {
	path string

	mutex   sync.Mutex
	known   map[types.UID]*claimRecord
	busy    map[types.UID]bool // locked claims
	changed chan struct{}      // closed when a claim is unlocked
}

func openRecords(path string) (*records, error) {
	stored, err := checkpoint.Read[[]*claimRecord](path)
	if err != nil {
		return nil, err
	}
	r := &records{path: path, known: make(map[types.UID]*claimRecord), busy: make(map[types.UID]bool), changed: make(chan struct{})}
	for _, known := range stored {
		r.known[known.UID] = known
	}
	return r, nil
}

// lock locks all of the claims at once, and waits until none of them is locked. So two callers with
// common claims cannot deadlock.
func (r *records) lock(ctx context.Context, claims []types.UID) (unlock func(), err error) {
	for {
		r.mutex.Lock()
		free := !slices.ContainsFunc(claims, func(claim types.UID) bool { return r.busy[claim] })
		if free {
			for _, claim := range claims {
				r.busy[claim] = true
			}
		}
		changed := r.changed
		r.mutex.Unlock()
		if free {
			return func() { r.unlock(claims) }, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for claims that others work on: %w", context.Cause(ctx))
		}
	}
}

func (r *records) unlock(claims []types.UID) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, claim := range claims {
		delete(r.busy, claim)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// get returns the record of a claim, or nil.
func (r *records) get(claim types.UID) *claimRecord {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.known[claim]
}

// all returns the records for which keep returns true, sorted by namespace and name.
func (r *records) all(keep func(*claimRecord) bool) []*claimRecord {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.sorted(keep)
}

// sorted is all without locking. The caller holds the mutex.
func (r *records) sorted(keep func(*claimRecord) bool) []*claimRecord {
	var out []*claimRecord
	for _, known := range r.known {
		if keep(known) {
			out = append(out, known)
		}
	}
	slices.SortFunc(out, compareRecords)
	return out
}

// store writes records to the checkpoint, and then replaces them in memory. The caller has locked
// the claims. A record without pods and drivers is removed.
func (r *records) store(changes ...*claimRecord) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	before := r.known
	r.known = maps.Clone(before)
	for _, change := range changes {
		if len(change.Drivers) == 0 && leftover(change) {
			delete(r.known, change.UID)
		} else {
			r.known[change.UID] = change
		}
	}
	if err := checkpoint.Write(r.path, r.sorted(func(*claimRecord) bool { return true })); err != nil {
		r.known = before
		return err
	}
	return nil
}

// ofPod returns a function that tells whether a pod uses the claim of a record.
func ofPod(pod types.UID) func(*claimRecord) bool {
	return func(known *claimRecord) bool { return slices.Contains(known.Pods, pod) }
}

// leftover tells whether the claim of a record must be unprepared.
func leftover(known *claimRecord) bool { return len(known.Pods) == 0 }

func uidsOf(known []*claimRecord) []types.UID {
	out := make([]types.UID, len(known))
	for i := range known {
		out[i] = known[i].UID
	}
	return out
}
