// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dray-project/dray/alloctest"
)

// Verify checks that results, one per claim, are a correct allocation of all claims
// of the case on its node. The error says which rule they break.
func Verify(c *alloctest.Case, results []resourceapi.AllocationResult) error {
	w, err := newWorld(c)
	if err != nil {
		return err
	}
	if len(results) != len(c.Claims) {
		return fmt.Errorf("%d results for %d claims", len(results), len(c.Claims))
	}
	var placements []placement
	chosen := make([][]*want, len(c.Claims))
	for i := range c.Claims {
		placed, alternatives, err := w.read(i, results[i].Devices.Results)
		if err != nil {
			return fmt.Errorf("claim %d: %w", i, err)
		}
		placements = append(placements, placed...)
		chosen[i] = alternatives
	}
	if err := w.check(placements); err != nil {
		return err
	}
	return errors.Join(w.checkFields(results, placements), w.checkConfigs(results, chosen), w.checkNodeSelectors(results, placements))
}

// read assigns the results of a claim to its requests: each request has all its
// devices, in the order of requests, for one of its alternatives.
func (w *world) read(claim int, results []resourceapi.DeviceRequestAllocationResult) ([]placement, []*want, error) {
	requests, err := wants(w.c, claim)
	if err != nil {
		return nil, nil, err
	}
	var placements []placement
	var chosen []*want
	for _, alternatives := range requests {
		placed, err := w.readRequest(alternatives, results)
		if err != nil {
			return nil, nil, err
		}
		results = results[len(placed):]
		placements = append(placements, placed...)
		chosen = append(chosen, placed[0].want)
	}
	if len(results) > 0 {
		return nil, nil, fmt.Errorf("result for request %q is not asked for", results[0].Request)
	}
	return placements, chosen, nil
}

func (w *world) readRequest(alternatives []*want, results []resourceapi.DeviceRequestAllocationResult) ([]placement, error) {
	var placed []placement
	for _, result := range results {
		i := slices.IndexFunc(alternatives, func(a *want) bool { return a.name == result.Request })
		if i < 0 || len(placed) > 0 && placed[0].want != alternatives[i] {
			break
		}
		id := deviceID{result.Driver, result.Pool, result.Device}
		d := slices.IndexFunc(w.devices, func(d *device) bool { return d.id == id })
		if d < 0 {
			return nil, fmt.Errorf("request %s: device %s is not available on the node", result.Request, id)
		}
		placed = append(placed, placement{alternatives[i], w.devices[d]})
	}
	if len(placed) == 0 {
		return nil, fmt.Errorf("request %s has no devices", alternatives[0].request)
	}
	return placed, w.checkCount(placed)
}

func (w *world) checkCount(placed []placement) error {
	by := placed[0].want
	if by.mode == resourceapi.DeviceAllocationModeExactCount {
		if int64(len(placed)) != by.count {
			return fmt.Errorf("request %s: %d devices instead of %d", by.name, len(placed), by.count)
		}
		return nil
	}
	all, err := w.allOf(by)
	if err != nil {
		return err
	}
	for _, d := range all {
		if !slices.Contains(placed, placement{by, d}) {
			return fmt.Errorf("request %s: device %s is missing", by.name, d.id)
		}
	}
	if len(all) != len(placed) {
		return fmt.Errorf("request %s: %d devices instead of all %d", by.name, len(placed), len(all))
	}
	return nil
}

// allOf returns the devices that a request for all devices means.
func (w *world) allOf(by *want) ([]*device, error) {
	if w.unusable != "" {
		return nil, errors.New(w.unusable)
	}
	var all []*device
	for _, d := range w.devices {
		if len(d.api.BindingConditions) > 0 && !w.c.Features.DeviceBindingAndStatus {
			continue
		}
		match, err := w.matches(d, by)
		if err != nil {
			return nil, err
		}
		if match && (!w.c.Features.ConsumableCapacity || w.checkStaticCapacity(d, by) == nil) {
			all = append(all, d)
		}
	}
	return all, nil
}

// checkFields compares what results say about devices with what they must say.
func (w *world) checkFields(results []resourceapi.AllocationResult, placements []placement) error {
	shares := make(map[types.UID]bool)
	for i := range results {
		for _, result := range results[i].Devices.Results {
			p := placements[0]
			placements = placements[1:]
			expected := w.expectedFields(p)
			expected.ShareID = result.ShareID
			if !equality.Semantic.DeepEqual(expected, result) {
				return fmt.Errorf("claim %d request %s device %s: fields are wrong: %+v instead of %+v", i, p.want.name, p.device.id, result, expected)
			}
			if (result.ShareID != nil) != w.shared(p.device) {
				return fmt.Errorf("claim %d request %s device %s: share ID is missing or not expected", i, p.want.name, p.device.id)
			}
			if result.ShareID != nil && (*result.ShareID == "" || shares[*result.ShareID]) {
				return fmt.Errorf("claim %d request %s device %s: share ID is not unique", i, p.want.name, p.device.id)
			}
			if result.ShareID != nil {
				shares[*result.ShareID] = true
			}
		}
	}
	return nil
}
