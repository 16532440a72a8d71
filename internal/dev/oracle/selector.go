// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"fmt"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

var (
	programsLock sync.Mutex
	programs     = make(map[cel.Features]*cel.Cache)
)

func (w *world) programs() *cel.Cache {
	features := cel.Features{
		EnableConsumableCapacity: w.c.Features.ConsumableCapacity,
		EnableListTypeAttributes: w.c.Features.ListTypeAttributes,
	}
	programsLock.Lock()
	defer programsLock.Unlock()
	if programs[features] == nil {
		programs[features] = cel.NewCache(1000, features)
	}
	return programs[features]
}

func (d *device) input() cel.Device {
	return cel.Device{
		Driver: d.id.driver, AllowMultipleAllocations: d.api.AllowMultipleAllocations,
		Attributes: d.api.Attributes, Capacity: d.api.Capacity,
	}
}

type selection struct {
	device *device
	want   *want
}

// matches tells whether all selectors of class and request accept the device.
func (w *world) matches(d *device, by *want) (bool, error) {
	key := selection{d, by}
	if match, ok := w.selected[key]; ok {
		return match, nil
	}
	for _, selector := range slices.Concat(by.class.Spec.Selectors, by.selectors) {
		match, err := w.evaluate(selector.CEL.Expression, d)
		if err != nil {
			return false, fmt.Errorf("selector %q on device %s: %w", selector.CEL.Expression, d.id, err)
		}
		if !match {
			w.selected[key] = false
			return false, nil
		}
	}
	w.selected[key] = true
	return true, nil
}

func (w *world) evaluate(expression string, d *device) (bool, error) {
	program := w.programs().GetOrCompile(expression)
	if program.Error != nil {
		return false, program.Error
	}
	match, _, err := program.DeviceMatches(context.Background(), d.input())
	return match, err
}

// attribute looks up an attribute for a constraint; nil if the device has none.
func (w *world) attribute(p placement, name resourceapi.FullyQualifiedName) (*resourceapi.DeviceAttribute, error) {
	for _, derived := range p.want.derived {
		if derived.Name != name {
			continue
		}
		program := w.programs().GetOrCompileDerivedAttribute(derived.Expression)
		if program.Error != nil {
			return nil, program.Error
		}
		attribute, _, err := program.EvaluateDerivedAttribute(context.Background(), p.device.input())
		return attribute, err
	}
	if attribute, ok := p.device.api.Attributes[resourceapi.QualifiedName(name)]; ok {
		return &attribute, nil
	}
	for bare, attribute := range p.device.api.Attributes {
		if p.device.id.driver+"/"+string(bare) == string(name) {
			return &attribute, nil
		}
	}
	return nil, nil
}
