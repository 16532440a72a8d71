// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
)

// desiredPool is what the driver wants published of one pool. It is immutable, except for caches in
// its slices. If an update does not change the pool, it remains the same pointer.
type desiredPool struct {
	generation   int64
	nodeSelector *v1.NodeSelector
	allNodes     bool
	slices       []*desiredSlice
	invalid      error // why it cannot be published, or nil
}

// desiredSlice is one slice of a desiredPool. Later versions of the pool share it as long as the
// driver does not change it. Only the worker that publishes the pool accesses its caches.
type desiredSlice struct {
	Slice
	// verified is the last stored object that was found to be as desired.
	verified *resourceapi.ResourceSlice
	// accepted is what the API server stored instead of Slice, if that differs.
	accepted *Slice
}

// newDesiredPool copies pool, and shares unchanged slices with previous. It returns previous if
// nothing changed. previous may be nil.
func newDesiredPool(pool *Pool, previous *desiredPool) *desiredPool {
	if previous == nil {
		previous = &desiredPool{slices: nil, generation: -1}
	}
	desired := &desiredPool{
		generation:   pool.Generation,
		nodeSelector: pool.NodeSelector.DeepCopy(),
		allNodes:     pool.AllNodes,
		slices:       make([]*desiredSlice, len(pool.Slices)),
	}
	changed := pool.Generation != previous.generation || pool.AllNodes != previous.allNodes ||
		!apiequality.Semantic.DeepEqual(pool.NodeSelector, previous.nodeSelector) ||
		len(pool.Slices) != len(previous.slices)
	for i := range pool.Slices {
		if i < len(previous.slices) && sameSlice(&pool.Slices[i], &previous.slices[i].Slice) {
			desired.slices[i] = previous.slices[i]
			continue
		}
		changed = true
		desired.slices[i] = newDesiredSlice(&pool.Slices[i])
	}
	if !changed {
		return previous
	}
	desired.invalid = desired.validate()
	return desired
}

func newDesiredSlice(slice *Slice) *desiredSlice {
	desired := &desiredSlice{Slice: *slice.DeepCopy()}
	roundTaintTimes(desired.Devices)
	return desired
}

// holds tells whether a stored object has the content of this slice. It does not compare fields
// that all slices of the pool share.
func (s *desiredSlice) holds(stored *resourceapi.ResourceSlice) bool {
	if s.verified == stored {
		return true
	}
	want := &s.Slice
	if s.accepted != nil {
		want = s.accepted
	}
	if !sameStored(want, sliceOf(&stored.Spec)) {
		return false
	}
	s.verified = stored
	return true
}

// current tells whether a stored object needs no write as slice i of the pool, if the generation is
// not raised.
func (p *desiredPool) current(i int, stored *resourceapi.ResourceSlice) bool {
	spec := &stored.Spec
	return spec.Pool.ResourceSliceCount == int64(len(p.slices)) &&
		p.allNodes == (spec.AllNodes != nil && *spec.AllNodes) &&
		samePointed(p.nodeSelector, spec.NodeSelector) &&
		p.slices[i].holds(stored)
}

// dropped tells whether the API server dropped fields of a slice.
func (p *desiredPool) dropped() bool {
	return p != nil && slices.ContainsFunc(p.slices, func(slice *desiredSlice) bool { return slice.accepted != nil })
}

// validate checks what the API server cannot check, because it validates one slice at a time.
func (p *desiredPool) validate() error {
	counterSets, err := p.counterSets()
	if err != nil {
		return err
	}
	names := sets.New[string]()
	for i, slice := range p.slices {
		for _, device := range slice.Devices {
			if names.Has(device.Name) {
				return fmt.Errorf("slice %d: device %q: another device of the pool has this name", i, device.Name)
			}
			names.Insert(device.Name)
			if err := validateConsumption(device, counterSets); err != nil {
				return fmt.Errorf("slice %d: device %q: %w", i, device.Name, err)
			}
		}
	}
	return nil
}

func (p *desiredPool) counterSets() (map[string]resourceapi.CounterSet, error) {
	found := make(map[string]resourceapi.CounterSet)
	for i, slice := range p.slices {
		for _, counterSet := range slice.SharedCounters {
			if _, twice := found[counterSet.Name]; twice {
				return nil, fmt.Errorf("slice %d: counter set %q: another counter set of the pool has this name", i, counterSet.Name)
			}
			found[counterSet.Name] = counterSet
		}
	}
	return found, nil
}

func validateConsumption(device resourceapi.Device, counterSets map[string]resourceapi.CounterSet) error {
	for _, consumption := range device.ConsumesCounters {
		counterSet, ok := counterSets[consumption.CounterSet]
		if !ok {
			return fmt.Errorf("counter set %q: not in the pool", consumption.CounterSet)
		}
		for name := range consumption.Counters {
			if _, ok := counterSet.Counters[name]; !ok {
				return fmt.Errorf("counter set %q: it has no counter %q", consumption.CounterSet, name)
			}
		}
	}
	return nil
}
