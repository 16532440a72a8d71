// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	upstream "k8s.io/dynamic-resource-allocation/cel"
	"pgregory.net/rapid"
)

// The names of random devices: those that the corpus reads, and others.
var (
	attributeNames = []string{
		"int", "string", "bool", "version", "ints", "strings", "bools", "versions", "missing", "unread", "a/b/c", "/x",
		"other.example.com/int", "other.example.com/bool", "third.example.com/x", "a/x", "a/y", "b/x",
	}
	capacityNames = []string{"memory", "small", "huge", "missing", "unread", "other.example.com/memory", "1.2.3", "40Gi", "a/x"}
)

// randomDevice returns the device of a seed. No attribute is there twice under
// different names: which one counts is random upstream.
func randomDevice(seed uint64) *resourceapi.Device {
	r := rand.New(rand.NewPCG(seed, 0))
	d := &resourceapi.Device{
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{},
		Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{},
	}
	if r.IntN(2) == 0 {
		d.AllowMultipleAllocations = new(r.IntN(2) == 0)
	}
	qualify := func(name string) resourceapi.QualifiedName {
		if !strings.Contains(name, "/") && r.IntN(4) == 0 {
			name = gpu + "/" + name
		}
		return resourceapi.QualifiedName(name)
	}
	attributeShare, capacityShare := r.IntN(4), r.IntN(4) // of 4; often there are none at all
	for _, name := range attributeNames {
		if r.IntN(4) < attributeShare {
			d.Attributes[qualify(name)] = randomAttribute(r)
		}
	}
	for _, name := range capacityNames {
		if r.IntN(4) < capacityShare {
			d.Capacity[qualify(name)] = resourceapi.DeviceCapacity{Value: pick(r, quantities)()}
		}
	}
	return d
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

var (
	quantities = []func() resource.Quantity{
		parse("4"), parse("4000m"), parse("40Gi"), parse("0"), parse("-1"), parse("1e3"), parse("40960Mi"),
		parse("123456789012345678901234567890"), parse("9223372036854775807"), parse("1n"),
		func() resource.Quantity { q := resource.MustParse("4"); return *q.ToDec() },
		func() resource.Quantity { return *resource.NewScaledQuantity(4000, resource.Milli) },
	}
	integers = []int64{0, 1, 2, 3, -1, 42, math.MaxInt64, math.MinInt64}
	texts    = []string{"", "a", "b", "a100", "1", "int", "gpu.example.com", "ä", "true"}
	versions = []string{"0.0.0", "1.2.3", "1.2.3-rc.1", "1.2.3+build", "10.0.0"}
)

func parse(text string) func() resource.Quantity {
	return func() resource.Quantity { return resource.MustParse(text) }
}

func randomAttribute(r *rand.Rand) (a resourceapi.DeviceAttribute) {
	switch r.IntN(9) {
	case 0:
		a.BoolValue = new(r.IntN(2) == 0)
	case 1:
		a.VersionValue = new(pick(r, versions))
	case 2:
		a.IntValues = list(r, func() int64 { return pick(r, integers) })
	case 3:
		a.BoolValues = list(r, func() bool { return r.IntN(2) == 0 })
	case 4:
		a.StringValues = list(r, func() string { return pick(r, texts) })
	case 5:
		a.VersionValues = list(r, func() string { return pick(r, versions) })
	case 6:
		a.StringValue = new(pick(r, texts))
	default:
		a.IntValue = new(pick(r, integers))
		if r.IntN(100) == 0 {
			a = resourceapi.DeviceAttribute{VersionValue: new("nonsense")}
		}
	}
	return a
}

func list[T any](r *rand.Rand, one func() T) []T {
	all := make([]T, 0)
	for range r.IntN(4) {
		all = append(all, one())
	}
	return all
}

// FuzzMatches compares an expression on a random device with upstream.
func FuzzMatches(f *testing.F) {
	for i, expression := range grid() {
		if i%7 == 0 || i < len(expressions) {
			f.Add(expression, uint64(i))
		}
	}
	f.Fuzz(func(t *testing.T, expression string, seed uint64) {
		if len(expression) > 500 {
			return // compiling takes long, with little more to find
		}
		ours, theirs, difference := compareCompiled(expression, upstream.Features{}, false)
		if difference != "" {
			t.Fatal(difference)
		}
		if ours == nil {
			return
		}
		device := randomDevice(seed)
		difference = compareMatch(t, ours, theirs, gpu, device)
		// Upstream evaluates in random order where the expression iterates over a map.
		for range 200 {
			if difference == "" || ours.Reads().Exact {
				break
			}
			difference = compareMatch(t, ours, theirs, gpu, device)
		}
		if difference != "" {
			t.Errorf("device %d: %s", seed, difference)
		}
	})
}

// FuzzCompile: whatever the text, there is a usable program or an error that explains.
func FuzzCompile(f *testing.F) {
	for _, expression := range append(append([]string(nil), expressions...), operands...) {
		f.Add(expression)
	}
	device := NewDevice(gpu, devices()[1])
	f.Fuzz(func(t *testing.T, expression string) {
		cache := NewCache(2)
		for _, compile := range []func(string) (*Program, error){cache.Selector, cache.Derived} {
			p, err := compile(expression)
			if err != nil {
				var compileErr *CompileError
				if !errors.As(err, &compileErr) || compileErr.Message == "" {
					t.Errorf("got %v, want a CompileError with a message", err)
				}
				continue
			}
			p.MaxCost()
			_, err = p.Attribute(t.Context(), device)
			var evalErr *EvalError
			if err != nil && !errors.As(err, &evalErr) {
				t.Errorf("got %v, want an EvalError", err)
			}
		}
	})
}

// TestRandomDevicesLikeUpstream runs the seeds of FuzzMatches on more devices.
func TestRandomDevicesLikeUpstream(t *testing.T) {
	for i, expression := range grid() {
		if i%11 != 0 || len(expression) > 500 {
			continue
		}
		ours, theirs, _ := compareCompiled(expression, upstream.Features{}, false)
		if ours == nil || !ours.Reads().Exact {
			continue
		}
		for seed := range uint64(20) {
			if difference := compareMatch(t, ours, theirs, gpu, randomDevice(seed+uint64(i))); difference != "" {
				t.Errorf("%s: device %d: %s", expression, seed+uint64(i), difference)
			}
		}
	}
}

// TestCombinationsLikeUpstream puts expressions of the grid together, so that errors get
// absorbed, results discarded and names bound.
func TestCombinationsLikeUpstream(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	all, memo, compared := grid(), NewMemo(10000), 0
	for range 1200 {
		form := pick(r, []string{
			"(%s) && (%s)", "(%s) || (%s)", "!(%s) || (%s)", "(%s) ? (%s) : device.driver == ''", "[1, 2].all(int, (%s) || (%s))",
			"cel.bind(x, (%s), x || (%s))", "cel.bind(device, device, (%s) && (%s))", "[device.driver].exists(device, (%s) || .%s)",
			"((%s) == (%s)) != false", "[(%s), (%s)].exists(b, b)", "optional.of((%s)).orValue(%s)",
		})
		expression := fmt.Sprintf(form, pick(r, all), pick(r, all))
		if len(expression) > 500 {
			continue
		}
		ours, theirs, difference := compareCompiled(expression, upstream.Features{}, false)
		if difference != "" {
			t.Errorf("%s: %s", expression, difference)
		}
		if ours == nil || !ours.Reads().Exact {
			continue
		}
		for range 10 {
			seed := r.Uint64()
			if difference := compareMatch(t, ours, theirs, gpu, randomDevice(seed)); difference != "" {
				t.Errorf("%s: device %d: %s", expression, seed, difference)
			}
			match, err := memo.Matches(t.Context(), ours, NewDevice(gpu, randomDevice(seed)))
			again, againErr := ours.Matches(t.Context(), NewDevice(gpu, randomDevice(seed)))
			if match != again || fmt.Sprint(err) != fmt.Sprint(againErr) {
				t.Errorf("%s: device %d: remembered %v %v, evaluated %v %v", expression, seed, match, err, again, againErr)
			}
			compared++
		}
	}
	if t.Logf("%d evaluations compared", compared); compared < 1000 {
		t.Error("hardly anything compiles")
	}
}

// TestEqualProjectionsGiveEqualResults is what memoising relies on.
func TestEqualProjectionsGiveEqualResults(t *testing.T) {
	var compiled []*Program
	for i, expression := range grid() {
		if p, err := NewCache(1).Selector(expression); err == nil && len(expression) < 500 && (i < len(expressions) || i%3 == 0) {
			compiled = append(compiled, p)
		}
	}
	equal, distinct := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		p := rapid.SampledFrom(compiled).Draw(r, "program")
		one := randomDevice(rapid.Uint64().Draw(r, "device"))
		other := vary(one, rapid.Uint64().Draw(r, "variation"))
		a, b := NewDevice(gpu, one), NewDevice(gpu, other)
		if a.err != nil || b.err != nil {
			return // such devices have no projection
		}
		if !bytes.Equal(p.projector.append(nil, a), p.projector.append(nil, b)) {
			distinct++
			return
		}
		equal++
		match, err := p.Matches(t.Context(), a)
		otherMatch, otherErr := p.Matches(t.Context(), b)
		if match != otherMatch || fmt.Sprint(err) != fmt.Sprint(otherErr) {
			r.Errorf("%s: %v %v and %v %v", p.Expression(), match, err, otherMatch, otherErr)
		}
	})
	if equal == 0 || distinct == 0 {
		t.Errorf("%d projections are equal and %d are not: nothing was tested", equal, distinct)
	}
}

// vary returns a device in which some attributes and capacities differ.
func vary(d *resourceapi.Device, seed uint64) *resourceapi.Device {
	r, varied := rand.New(rand.NewPCG(seed, 1)), d.DeepCopy()
	if r.IntN(4) == 0 {
		clear(varied.Attributes)
	}
	if r.IntN(4) == 0 {
		clear(varied.Capacity)
	}
	for _, name := range attributeNames {
		if r.IntN(4) == 0 {
			delete(varied.Attributes, gpu+"/"+resourceapi.QualifiedName(name))
			varied.Attributes[resourceapi.QualifiedName(name)] = randomAttribute(r)
		}
	}
	for _, name := range capacityNames {
		if r.IntN(4) == 0 {
			delete(varied.Capacity, gpu+"/"+resourceapi.QualifiedName(name))
			varied.Capacity[resourceapi.QualifiedName(name)] = resourceapi.DeviceCapacity{Value: pick(r, quantities)()}
		}
	}
	return varied
}
