// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cel has the names that the tests of upstream's package cel use, for the
// expressions of Dray.
package cel

import (
	"context"
	"fmt"
	"math"

	"github.com/google/cel-go/cel"
	resourceapi "k8s.io/api/resource/v1"
	upstream "k8s.io/dynamic-resource-allocation/cel"

	dray "github.com/dray-project/dray/cel"
)

type (
	// Features say what new expressions may use. Dray compiles stored ones.
	Features = upstream.Features
	// Options of compiling.
	Options = upstream.Options
	// Device is what an expression is evaluated on.
	Device = upstream.Device
)

type compiler struct{ features Features }

// GetCompiler returns a compiler that asks Dray, and upstream's where Dray refuses.
func GetCompiler(features Features) compiler { return compiler{features} }

// CompilationResult is an expression of Dray, and what upstream makes of it.
type CompilationResult struct {
	Error   error
	MaxCost uint64
	program *dray.Program
	other   upstream.CompilationResult
}

// CompileCELExpression compiles with both.
func (c compiler) CompileCELExpression(expression string, options Options) CompilationResult {
	cache := dray.NewCache(1)
	compile := cache.Selector
	if options.DerivedAttribute {
		compile = cache.Derived
	}
	program, err := compile(expression)
	other := upstream.GetCompiler(c.features).CompileCELExpression(expression, options)
	if err != nil {
		if other.Error != nil {
			refused(err, other.Error)
		}
		return CompilationResult{Error: err, MaxCost: math.MaxUint64}
	}
	return CompilationResult{MaxCost: program.MaxCost(), program: program, other: other}
}

// refused is printed where nothing but the text of an error can differ.
func refused(err, other error) {
	fmt.Printf("CONFORMANCE refused by both: %q, upstream %q\n", err, other)
}

// DeviceMatches evaluates a selector. Dray has no details.
func (r CompilationResult) DeviceMatches(ctx context.Context, device Device) (bool, *cel.EvalDetails, error) {
	matches, err := r.program.Matches(ctx, r.device(device))
	if err != nil && r.comparable() {
		if _, _, otherErr := r.other.DeviceMatches(ctx, device); otherErr != nil {
			refused(err, otherErr)
		}
	}
	return matches, nil, err
}

// EvaluateDerivedAttribute evaluates what yields an attribute. Dray has no details.
func (r CompilationResult) EvaluateDerivedAttribute(ctx context.Context, device Device) (*resourceapi.DeviceAttribute, *cel.EvalDetails, error) {
	attribute, err := r.program.Attribute(ctx, r.device(device))
	if err != nil && r.comparable() {
		if _, _, otherErr := r.other.EvaluateDerivedAttribute(ctx, device); otherErr != nil {
			refused(err, otherErr)
		}
	}
	return attribute, nil, err
}

func (r CompilationResult) comparable() bool {
	return r.other.Error == nil && r.other.MaxCost == r.MaxCost
}

func (CompilationResult) device(device Device) *dray.Device {
	return dray.NewDevice(device.Driver, &resourceapi.Device{
		Attributes:               device.Attributes,
		Capacity:                 device.Capacity,
		AllowMultipleAllocations: device.AllowMultipleAllocations,
	})
}

// Cache has the methods of upstream's.
type Cache struct{ programs *dray.Cache }

// NewCache makes one of Dray, which knows no features.
func NewCache(size int, _ Features) *Cache { return &Cache{dray.NewCache(size)} }

// GetOrCompile returns a selector.
func (c *Cache) GetOrCompile(expression string) CompilationResult {
	return cached(c.programs.Selector(expression))
}

// GetOrCompileDerivedAttribute returns an expression that yields an attribute.
func (c *Cache) GetOrCompileDerivedAttribute(expression string) CompilationResult {
	return cached(c.programs.Derived(expression))
}

func cached(program *dray.Program, err error) CompilationResult {
	return CompilationResult{Error: err, MaxCost: math.MaxUint64, program: program}
}
