// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func selector(t testing.TB, expression string) *Program {
	t.Helper()
	p, err := NewCache(1).Selector(expression)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCompileErrors(t *testing.T) {
	for _, test := range []struct {
		expression   string
		derived      bool
		line, column int
		message      string
	}{
		{`device.foo == 1`, false, 1, 7, "undefined field 'foo'"},
		{"true &&\n  x", false, 2, 3, "undeclared reference to 'x'"},
		{`true &&`, false, 1, 8, "Syntax error"},
		{`"é" == x`, false, 1, 8, "undeclared reference"},
		{`1`, false, 0, 0, "a selector must yield bool or an attribute, not int"},
		{`[true]`, false, 0, 0, "not list(bool)"},
		{`{"a": 1}`, true, 0, 0, "a derived attribute must yield"},
		{`null`, true, 0, 0, "not null_type"},
		{`"` + strings.Repeat("x", 10*1024-1) + `"`, false, 0, 0, "is 10241 bytes long, at most 10240 are allowed"},
		{strings.Repeat("[", 5000), false, 0, 0, "recursion limit"},
		{"optional.of(1)" + strings.Repeat(".optMap(v, v)", 100) + ".hasValue()", false, 0, 0, "expands to about"},
		{"optional.of(1)" + strings.Repeat(".optFlatMap(v, optional.of(v))", 100) + ".hasValue()", false, 0, 0, "expands to about"},
		{strings.Repeat("optMap ", 10), false, 1, 8, "Syntax error"},
	} {
		_, err := NewCache(1).get(cacheKey{"test", test.expression}, map[bool]outputCheck{false: yieldsBool, true: yieldsAttribute}[test.derived])
		var compileErr *CompileError
		if !errors.As(err, &compileErr) {
			t.Errorf("%.100s: got %v, want a CompileError", test.expression, err)
			continue
		}
		if compileErr.Line != test.line || compileErr.Column != test.column || !strings.Contains(compileErr.Message, test.message) {
			t.Errorf("%.100s: got %d:%d %q, want %d:%d %q", test.expression,
				compileErr.Line, compileErr.Column, compileErr.Message, test.line, test.column, test.message)
		}
		if len(err.Error()) > 500 {
			t.Errorf("%.100s: error of %d bytes", test.expression, len(err.Error()))
		}
	}
}

func TestOptionalMacrosWithinReason(t *testing.T) {
	p := selector(t, `device.attributes["gpu.example.com"].?int`+strings.Repeat(".optMap(v, v + 1)", 6)+`.orValue(0) == 7`)
	if match, err := p.Matches(t.Context(), NewDevice(gpu, devices()[1])); !match || err != nil {
		t.Errorf("got %v %v, want true", match, err)
	}
}

func TestEvalErrors(t *testing.T) {
	full := devices()[1]
	for _, test := range []struct {
		expression    string
		device        *resourceapi.Device
		line, column  int
		message, hint string
	}{
		{`device.attributes["gpu.example.com"].missing == 1`, full, 1, 37, "no such key: missing",
			`attribute gpu.example.com/missing is missing: test it with has(device.attributes["gpu.example.com"].missing) or read it as device.attributes["gpu.example.com"].?missing.orValue(...)`},
		{"true &&\n device.capacity[\"nowhere\"][\"x\"].isInteger()", full, 2, 28, "no such key: x", "capacity nowhere/x is missing"},
		{`cel.bind(g, device.attributes["gpu.example.com"], g.int == 1 && g.missing)`, full, 1, 66, "no such key: missing", "attribute gpu.example.com/missing is missing"},
		{`["y"].exists(i, device.attributes["gpu.example.com"][i] == i)`, full, 1, 53, "no such key: y", "optional access"},
		{`device.attributes["gpu.example.com"].int.startsWith("a")`, full, 1, 52, "no such overload", "gpu.example.com/int is of type int"},
		{`device.attributes["gpu.example.com"].int.exists(x, x == 1)`, full, 0, 0, "expected iterable type", "gpu.example.com/int is of type int"},
		{`device.attributes["gpu.example.com"].versions`, full, 0, 0, "must yield true or false, not a value of type list", "gpu.example.com/versions is of type list of semver"},
		{bomb(7), full, 0, 0, "cost limit exceeded", "at most 1000000"},
		{`device.attributes["gpu.example.com"].int / 0 == 1`, full, 1, 42, "division by zero", ""},
		{`true`, devices()[6], 0, 0, `attribute version: "v1" is not a semantic version`, ""},
		{`true`, devices()[7], 0, 0, `attribute versions: "" is not a semantic version`, ""},
		{`true`, devices()[8], 0, 0, `attribute string: has no value`, ""},
	} {
		_, err := selector(t, test.expression).Matches(t.Context(), NewDevice(gpu, test.device))
		var evalErr *EvalError
		if !errors.As(err, &evalErr) {
			t.Errorf("%.100s: got %v, want an EvalError", test.expression, err)
			continue
		}
		if evalErr.Line != test.line || evalErr.Column != test.column ||
			!strings.Contains(evalErr.Err.Error(), test.message) || !strings.Contains(evalErr.Hint, test.hint) {
			t.Errorf("%.100s: got %d:%d %q %q, want %d:%d %q %q", test.expression,
				evalErr.Line, evalErr.Column, evalErr.Err, evalErr.Hint, test.line, test.column, test.message, test.hint)
		}
		if !errors.Is(err, evalErr.Err) {
			t.Errorf("%.100s: cause cannot be unwrapped", test.expression)
		}
	}
}

// TestCapacityOperationsDoNotLeak: a comparison can change how a quantity is represented,
// which must not be visible to later evaluations.
func TestCapacityOperationsDoNotLeak(t *testing.T) {
	device := NewDevice(gpu, devices()[1])
	isInteger := selector(t, `device.capacity["gpu.example.com"].small.isInteger()`)
	compare := selector(t, `device.capacity["gpu.example.com"].small.isLessThan(quantity("1e30"))`)
	for range 2 {
		for _, p := range []*Program{isInteger, compare} {
			if match, err := p.Matches(t.Context(), device); !match || err != nil {
				t.Errorf("%s: got %v %v, want true", p.Expression(), match, err)
			}
		}
	}
	if small := device.object.Capacity["small"]; !cmp.Equal(small.Value, resource.MustParse("4")) {
		t.Errorf("the device was modified: %#v", small.Value)
	}
}

func TestQualifiedNameHasPrecedence(t *testing.T) {
	device := NewDevice(gpu, &resourceapi.Device{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"model": {StringValue: new("bare")}, "gpu.example.com/model": {StringValue: new("qualified")},
	}})
	p := selector(t, `device.attributes["gpu.example.com"].model == "qualified" && device.attributes["gpu.example.com"].size() == 1`)
	for range 20 {
		if match, err := p.Matches(t.Context(), device); !match || err != nil {
			t.Fatalf("got %v %v, want true", match, err)
		}
	}
}

// Kubernetes 1.37 reads times that later versions of cel-go refuse: decision 0094.
func TestTimesAsKubernetesReadsThem(t *testing.T) {
	device := NewDevice("d", &resourceapi.Device{Name: "a"})
	for _, text := range []string{"2026-11-26T00:00:00,5Z", "2026-11-26T7:00:00Z"} {
		p := selector(t, fmt.Sprintf(`timestamp(%q) < timestamp("2027-01-01T00:00:00Z")`, text))
		if match, err := p.Matches(t.Context(), device); err != nil || !match {
			t.Errorf("%s: %t, %v", text, match, err)
		}
	}
}

func TestIterationIsOrdered(t *testing.T) {
	p, err := NewCache(1).Derived(`device.attributes["gpu.example.com"].map(k, k)`)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		got, err := p.Attribute(t.Context(), NewDevice(gpu, devices()[1]))
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"bool", "bools", "int", "ints", "string", "strings", "version", "versions"}
		if diff := cmp.Diff(want, got.StringValues); diff != "" {
			t.Fatal(diff)
		}
	}
}

// longRunning takes long enough to be interrupted, and no more than it may.
const longRunning = `device.attributes["gpu.example.com"].ints.all(x, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(a, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(b, a + b + x > 0)))`

func TestCancellation(t *testing.T) {
	errWhy := errors.New("the scheduler shuts down")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errWhy)
	expired, release := context.WithTimeout(t.Context(), time.Nanosecond)
	defer release()

	p, d, memo := selector(t, longRunning), NewDevice(gpu, devices()[1]), NewMemo(100)
	for ctx, cause := range map[context.Context]error{cancelled: errWhy, expired: context.DeadlineExceeded} {
		if _, err := p.Matches(ctx, d); !errors.Is(err, cause) {
			t.Errorf("got %v, want it to wrap %v", err, cause)
		}
		if _, err := memo.Matches(ctx, p, d); !errors.Is(err, cause) {
			t.Errorf("from memo: got %v, want it to wrap %v", err, cause)
		}
	}
	if match, err := memo.Matches(t.Context(), p, d); !match || err != nil {
		t.Errorf("got %v %v: the cancellation was remembered", match, err)
	}
}

func TestMaxCost(t *testing.T) {
	if cost := selector(t, `device.driver == "a"`).MaxCost(); cost == 0 || cost > 10 {
		t.Errorf("got %d for a cheap expression", cost)
	}
	if cost := selector(t, bomb(7)).MaxCost(); cost <= resourceapi.CELSelectorExpressionMaxCost || cost == math.MaxUint64 {
		t.Errorf("got %d for an expensive expression", cost)
	}
}

func TestCacheIsBounded(t *testing.T) {
	cache := NewCache(2)
	compileOne := func(i int) *Program {
		p, err := cache.Selector(fmt.Sprintf("%d == 1", i))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := compileOne(0)
	if compileOne(1); first != compileOne(0) {
		t.Error("was compiled again")
	}
	compileOne(2)
	compileOne(3)
	if first == compileOne(0) {
		t.Error("was kept too long")
	}
	if cache.compiled.Len() > 2 {
		t.Errorf("got %d programs, want 2", cache.compiled.Len())
	}
	_, err := cache.Selector("!")
	if _, again := cache.Selector("!"); err == nil || !errors.Is(err, again) {
		t.Errorf("got %v and %v, want the same error", err, again)
	}
}

// For comparisons and logical operators of other languages, the error suggests those of CEL.
func TestSyntaxHints(t *testing.T) {
	for expression, want := range map[string]string{
		`device.driver = "a"`:                         "(compare with ==)",
		`device.driver == "a" and true`:               "(write &&)",
		`device.driver == "a" AND true`:               "(write &&)",
		`device.driver == "a" or device.driver == ""`: "(write ||)",
		`device.driver == "a" OR true`:                "(write ||)",
	} {
		if _, err := NewCache(1).Selector(expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", expression, err, want)
		}
	}
}
