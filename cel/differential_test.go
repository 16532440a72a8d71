// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	upstream "k8s.io/dynamic-resource-allocation/cel"
)

// peer evaluates with the package of Kubernetes.
type peer struct{ upstream.CompilationResult }

func compilePeer(expression string, f upstream.Features, derived bool) peer {
	return peer{upstream.GetCompiler(f).CompileCELExpression(expression, upstream.Options{DerivedAttribute: derived})}
}

func peerDevice(driver string, d *resourceapi.Device) upstream.Device {
	return upstream.Device{
		Driver: driver, Attributes: d.Attributes, Capacity: d.Capacity, AllowMultipleAllocations: d.AllowMultipleAllocations,
	}
}

// compareCompiled returns the program if both compile, and says how they differ.
func compareCompiled(expression string, f upstream.Features, derived bool) (*Program, peer, string) {
	cache := NewCache(1)
	ours, err := cache.Selector(expression)
	if derived {
		ours, err = cache.Derived(expression)
	}
	theirs := compilePeer(expression, f, derived)
	switch {
	case err == nil && theirs.Error == nil:
		if ours.MaxCost() != theirs.MaxCost {
			return nil, theirs, fmt.Sprintf("cost estimate %d, upstream %d", ours.MaxCost(), theirs.MaxCost)
		}
		return ours, theirs, ""
	case (err == nil) != (theirs.Error == nil):
		return nil, theirs, fmt.Sprintf("compile: %v, upstream: %v", err, theirs.Error)
	}
	return nil, theirs, ""
}

// compareMatch says how the results for one device differ.
func compareMatch(t *testing.T, ours *Program, theirs peer, driver string, device *resourceapi.Device) string {
	got, err := ours.Matches(t.Context(), NewDevice(driver, device))
	return compareAnswer(t, got, err, theirs, driver, device)
}

// compareAnswer compares what was said of a device.
func compareAnswer(t *testing.T, got bool, err error, theirs peer, driver string, device *resourceapi.Device) string {
	want, _, wantErr := theirs.DeviceMatches(t.Context(), peerDevice(driver, device))
	if (err != nil) != (wantErr != nil) {
		return fmt.Sprintf("error %v, upstream %v", err, wantErr)
	}
	if got != want {
		return fmt.Sprintf("%v, upstream %v", got, want)
	}
	if err != nil && causes(err) != causes(wantErr) {
		return fmt.Sprintf("error %v, upstream %v", err, wantErr)
	}
	return ""
}

// causes reduces an error to the class in which both must agree.
func causes(err error) string {
	for _, class := range []string{"cost limit", "no such key", "no such overload", "operation interrupted", "index out of bounds"} {
		if strings.Contains(err.Error(), class) {
			return class
		}
	}
	return "other"
}

func compareAttribute(t *testing.T, ours *Program, theirs peer, driver string, device *resourceapi.Device) string {
	want, _, wantErr := theirs.EvaluateDerivedAttribute(t.Context(), peerDevice(driver, device))
	got, err := ours.Attribute(t.Context(), NewDevice(driver, device))
	if (err != nil) != (wantErr != nil) {
		return fmt.Sprintf("error %v, upstream %v", err, wantErr)
	}
	return cmp.Diff(want, got)
}

// grid returns every predicate with every operand, and the whole expressions.
func grid() []string {
	all := append([]string(nil), expressions...)
	for _, operand := range operands {
		for _, predicate := range predicates {
			text := fmt.Sprintf(predicate, operand)
			if before, _, extra := strings.Cut(text, "%!(EXTRA"); extra {
				text = before
			}
			all = append(all, text)
		}
	}
	return all
}

// devicesFor is every device. For an expression that reads none, one that is valid and one that is not are enough: some take
// as long as the limit of costs allows.
func devicesFor(expression string) []*resourceapi.Device {
	all := devices()
	if strings.Contains(expression, "device") {
		return all
	}
	return []*resourceapi.Device{all[1], all[6]}
}

// TestSelectorsLikeUpstream compares every expression of the grid on every device.
func TestSelectorsLikeUpstream(t *testing.T) {
	var compiled, evaluations, matches, failures int
	for _, expression := range grid() {
		ours, theirs, difference := compareCompiled(expression, upstream.Features{}, false)
		if difference != "" {
			t.Errorf("%.200s: %s", expression, difference)
		}
		if ours == nil {
			continue
		}
		compiled++
		memo := NewMemo(100)
		for i, device := range devicesFor(expression) {
			for _, driver := range []string{gpu, "third.example.com"} {
				d := NewDevice(driver, device)
				if d.err != nil && driver != gpu {
					continue
				}
				match, err := ours.Matches(t.Context(), NewDevice(driver, device))
				if difference := compareAnswer(t, match, err, theirs, driver, device); difference != "" {
					t.Errorf("%.200s: device %d of %s: %s", expression, i, driver, difference)
				}
				remembered, rememberedErr := memo.Matches(t.Context(), ours, d)
				if remembered != match || fmt.Sprint(rememberedErr) != fmt.Sprint(err) {
					t.Errorf("%.200s: device %d of %s: remembered %v %v, evaluated %v %v", expression, i, driver, remembered, rememberedErr, match, err)
				}
				evaluations++
				if match {
					matches++
				}
				if err != nil && d.err == nil {
					failures++
				}
			}
		}
	}
	t.Logf("%d of %d expressions compile; %d evaluations, %d matches, %d errors", compiled, len(grid()), evaluations, matches, failures)
	if compiled < 500 || matches < 500 || failures < 500 {
		t.Error("the grid has lost its bite")
	}
}

// TestDerivedAttributesLikeUpstream compares the values of operands, and of expressions
// made for the purpose.
func TestDerivedAttributesLikeUpstream(t *testing.T) {
	all := append(append([]string(nil), expressions...), operands...)
	for _, operand := range operands {
		for _, form := range []string{"[%s]", "[%s, %[1]s]", "[dyn(%s), dyn(1)]", "dyn(%s)", "dyn(optional.of(%s))", "dyn({'a': %s})", "%s == 1 ? 'one' : 'other'",
			"%s.map(x, x)", "[[%s]]", "%s.map(x, 1)", "[1u, %s]", "dyn([%s])", "%s + 1", "%s.filter(x, false)", "[optional.of(%s)]", "[?optional.of(%s)]"} {
			all = append(all, fmt.Sprintf(form, operand))
		}
	}
	var values int
	for _, expression := range all {
		ours, theirs, difference := compareCompiled(expression, upstream.Features{}, true)
		if difference != "" {
			t.Errorf("%.200s: %s", expression, difference)
		}
		if ours == nil || strings.Contains(expression, ".map(") && !ours.Reads().Exact {
			continue // upstream's order is random
		}
		for i, device := range devicesFor(expression) {
			if difference := compareAttribute(t, ours, theirs, gpu, device); difference != "" {
				t.Errorf("%.200s: device %d: %s", expression, i, difference)
			}
			if _, err := ours.Attribute(t.Context(), NewDevice(gpu, device)); err == nil {
				values++
			}
		}
	}
	if t.Logf("%d expressions, %d values", len(all), values); values < 500 {
		t.Error("too few expressions have a value")
	}
}

// TestFeaturesLikeUpstream: whatever features upstream's compiler is made for, it compiles
// stored expressions alike and so do we.
func TestFeaturesLikeUpstream(t *testing.T) {
	for _, features := range []upstream.Features{
		{}, {EnableConsumableCapacity: true}, {EnableListTypeAttributes: true},
		{EnableConsumableCapacity: true, EnableListTypeAttributes: true},
	} {
		for _, expression := range append(append([]string(nil), expressions...), operands...) {
			for _, derived := range []bool{false, true} {
				ours, theirs, difference := compareCompiled(expression, features, derived)
				if difference != "" {
					t.Errorf("%+v: %.200s: %s", features, expression, difference)
				}
				if ours == nil || derived {
					continue
				}
				if difference := compareMatch(t, ours, theirs, gpu, devices()[1]); difference != "" {
					t.Errorf("%+v: %.200s: %s", features, expression, difference)
				}
			}
		}
	}
}
