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

// DamagedError says that the checkpoint is not what was written. What drivers have
// prepared is not known then.
type DamagedError = checkpoint.DamagedError

// claimRecord is what is known of one claim. It is not modified once it is stored.
type claimRecord struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// Pods that use the claim on this node. Without any, it is to be unprepared.
	Pods []types.UID `json:"pods,omitempty"`
	// Drivers that may have been asked to prepare it.
	Drivers map[string]driverRecord `json:"drivers"`
}

// driverRecord is what one driver did for a claim.
type driverRecord struct {
	// Prepared is set when the driver has said so, or need not be asked.
	Prepared bool `json:"prepared,omitempty"`
	// SkipUnprepare says that the driver need not be asked to unprepare.
	SkipUnprepare bool     `json:"skipUnprepare,omitempty"`
	Devices       []device `json:"devices,omitempty"`
}

// device is one that a driver prepared.
type device struct {
	// Requests of the claim that the device is for. None stands for all.
	Requests []string `json:"requests,omitempty"`
	CDI      []string `json:"cdi,omitempty"`
	Pool     string   `json:"pool,omitempty"`
	Device   string   `json:"device,omitempty"`
}

// with is the record with one more pod.
func (r *claimRecord) with(pod types.UID) *claimRecord {
	out := *r
	if !slices.Contains(r.Pods, pod) {
		out.Pods = append(slices.Clone(r.Pods), pod)
	}
	return &out
}

// without is the record without a pod.
func (r *claimRecord) without(pod types.UID) *claimRecord {
	out := *r
	out.Pods = slices.DeleteFunc(slices.Clone(r.Pods), func(other types.UID) bool { return other == pod })
	return &out
}

// withDriver is the record with another state of a driver; nil removes it.
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

// newRecord is one of a claim that no driver was asked about.
func newRecord(claim *resourceapi.ResourceClaim) *claimRecord {
	return &claimRecord{UID: claim.UID, Namespace: claim.Namespace, Name: claim.Name, Drivers: driversOf(claim)}
}

// records are all that is known, kept in a checkpoint.
type records struct {
	path string

	mutex   sync.Mutex
	known   map[types.UID]*claimRecord
	busy    map[types.UID]bool // claims that somebody works on
	changed chan struct{}      // closed when a claim is not busy any more
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

// lock waits until nobody works on any of the claims. It locks all of them or none, so
// that two callers with claims in common do not wait for each other.
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

// get returns what is known of a claim, or nil.
func (r *records) get(claim types.UID) *claimRecord {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.known[claim]
}

// all returns the records for which keep returns true, in the order of namespaces and names.
func (r *records) all(keep func(*claimRecord) bool) []*claimRecord {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.sorted(keep)
}

// sorted expects the mutex to be locked.
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

// store replaces what is known of claims, once that is in the checkpoint. The caller
// has locked these claims. A record without pods and drivers is forgotten.
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

// ofPod tells whether a record is of a claim that a pod uses.
func ofPod(pod types.UID) func(*claimRecord) bool {
	return func(known *claimRecord) bool { return slices.Contains(known.Pods, pod) }
}

// leftover tells whether a record is of a claim that is to be unprepared.
func leftover(known *claimRecord) bool { return len(known.Pods) == 0 }

func uidsOf(known []*claimRecord) []types.UID {
	out := make([]types.UID, len(known))
	for i := range known {
		out[i] = known[i].UID
	}
	return out
}
