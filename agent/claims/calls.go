// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/status"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
)

// callTimeout is the timeout of a call of a driver. Kubelet has the same.
const callTimeout = 45 * time.Second

// DriverError says that a driver did not prepare or unprepare a claim.
type DriverError struct {
	Driver string
	Claim  string // namespace/name
	Err    error
}

func (err *DriverError) Error() string {
	return fmt.Sprintf("claim %s: driver %s: %v", err.Claim, err.Driver, err.Err)
}

func (err *DriverError) Unwrap() error { return err.Err }

func compareRecords(a, b *claimRecord) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// operation is a call of drivers: prepare or unprepare.
type operation struct {
	// pending tells whether a driver in this state must still be called.
	pending func(driverRecord) bool
	// call calls the driver once for several claims. It returns a result per claim UID: the new
	// state of the driver, nil if there is none any more, or an error.
	call func(ctx context.Context, client dra.DRAPluginClient, claims []*dra.Claim) (map[string]result, error)
}

type result struct {
	driver *driverRecord
	err    error
}

var preparing = operation{
	pending: func(d driverRecord) bool { return !d.isReady() },
	call: func(ctx context.Context, client dra.DRAPluginClient, claims []*dra.Claim) (map[string]result, error) {
		answer, err := client.NodePrepareResources(ctx, &dra.NodePrepareResourcesRequest{Claims: claims})
		out := make(map[string]result)
		for uid, claim := range answer.GetClaims() {
			driver := &driverRecord{Prepared: true}
			for _, prepared := range claim.GetDevices() {
				driver.Devices = append(driver.Devices, device{
					Requests: prepared.GetRequestNames(), CDI: prepared.GetCdiDeviceIds(), Pool: prepared.GetPoolName(), Device: prepared.GetDeviceName(),
				})
			}
			out[uid] = result{driver, saidError(claim.GetError())}
		}
		return out, err
	},
}

var unpreparing = operation{
	pending: func(d driverRecord) bool { return !d.SkipUnprepare },
	call: func(ctx context.Context, client dra.DRAPluginClient, claims []*dra.Claim) (map[string]result, error) {
		answer, err := client.NodeUnprepareResources(ctx, &dra.NodeUnprepareResourcesRequest{Claims: claims})
		out := make(map[string]result)
		for uid, claim := range answer.GetClaims() {
			out[uid] = result{nil, saidError(claim.GetError())}
		}
		return out, err
	},
}

func saidError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// perform has drivers carry out an operation for all records that need it, with one call per
// driver. It returns the new records. A failing driver does not affect others, and all errors are
// joined.
func (p *Preparer) perform(ctx context.Context, op operation, known []*claimRecord) ([]*claimRecord, error) {
	byDriver := make(map[string][]int)
	for i, r := range known {
		for name, driver := range r.Drivers {
			if op.pending(driver) {
				byDriver[name] = append(byDriver[name], i)
			}
		}
	}
	known = slices.Clone(known)
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(byDriver)) {
		failed = append(failed, p.performBy(ctx, op, name, known, byDriver[name]))
	}
	return known, errors.Join(failed...)
}

// performBy is perform for one driver, and the records with these indexes.
func (p *Preparer) performBy(ctx context.Context, op operation, name string, known []*claimRecord, indexes []int) error {
	var claims []*dra.Claim
	for _, i := range indexes {
		claims = append(claims, &dra.Claim{Namespace: known[i].Namespace, Name: known[i].Name, Uid: string(known[i].UID)})
	}
	results, err := p.call(ctx, op, name, claims)
	var failed []error
	for _, i := range indexes {
		answer, answered := results[string(known[i].UID)]
		cause := err
		switch {
		case cause != nil:
		case !answered:
			cause = errors.New("its answer leaves the claim out")
		default:
			cause = answer.err
		}
		if cause != nil {
			failed = append(failed, &DriverError{name, known[i].Namespace + "/" + known[i].Name, cause})
			continue
		}
		if answer.driver != nil {
			answer.driver.SkipUnprepare, answer.driver.Exclusive = known[i].Drivers[name].SkipUnprepare, known[i].Drivers[name].Exclusive
		}
		known[i] = known[i].withDriver(name, answer.driver)
	}
	return errors.Join(failed...)
}

func (p *Preparer) call(ctx context.Context, op operation, name string, claims []*dra.Claim) (map[string]result, error) {
	client, err := p.plugins.client(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	results, err := op.call(ctx, client, claims)
	if err != nil {
		return nil, errors.New(status.Convert(err).Message())
	}
	return results, nil
}
