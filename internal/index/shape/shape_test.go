package shape

import (
	"reflect"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/index/given"
)

func TestAttributeOf(t *testing.T) {
	for _, test := range []struct {
		name      string
		attribute resourceapi.DeviceAttribute
		scalar    Value
		set       []Value
	}{
		{"nothing", resourceapi.DeviceAttribute{}, Value{}, nil},
		{"int", resourceapi.DeviceAttribute{IntValue: ptr.To(int64(1))}, intValue(1), []Value{intValue(1)}},
		{"bool", resourceapi.DeviceAttribute{BoolValue: ptr.To(true)}, boolValue(true), []Value{boolValue(true)}},
		{"string", resourceapi.DeviceAttribute{StringValue: ptr.To("1.0.0")}, stringValue("1.0.0"), []Value{stringValue("1.0.0")}},
		{"version", resourceapi.DeviceAttribute{VersionValue: ptr.To("1.0.0")}, versionValue("1.0.0"), []Value{versionValue("1.0.0")}},
		{"ints", resourceapi.DeviceAttribute{IntValues: []int64{2, 1, 2}}, Value{}, []Value{intValue(2), intValue(1)}},
		{"bools", resourceapi.DeviceAttribute{BoolValues: []bool{false, false}}, Value{}, []Value{boolValue(false)}},
		{"strings", resourceapi.DeviceAttribute{StringValues: []string{"a", "b"}}, Value{}, []Value{stringValue("a"), stringValue("b")}},
		{"versions", resourceapi.DeviceAttribute{VersionValues: []string{"1.0.0"}}, Value{}, []Value{versionValue("1.0.0")}},
		{"empty list", resourceapi.DeviceAttribute{IntValues: []int64{}}, Value{}, nil},
		{
			"several", resourceapi.DeviceAttribute{IntValue: ptr.To(int64(1)), StringValue: ptr.To("a"), VersionValues: []string{"1.0.0"}},
			stringValue("a"), []Value{versionValue("1.0.0")},
		},
		{
			"several scalars", resourceapi.DeviceAttribute{IntValue: ptr.To(int64(1)), StringValue: ptr.To("a")},
			stringValue("a"), []Value{intValue(1)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := Attribute{Scalar: test.scalar, HasScalar: test.scalar != Value{}, Set: test.set}
			if got := AttributeOf(&test.attribute); !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestValues(t *testing.T) {
	all := []Value{{}, intValue(0), intValue(1), boolValue(false), boolValue(true), stringValue(""), stringValue("1"), versionValue("1"), versionValue("")}
	for i := range all {
		for j := range all {
			if (all[i] == all[j]) != (i == j) {
				t.Errorf("%d == %d: %t", i, j, i != j)
			}
		}
	}
	for want, v := range map[string]Value{"": {}, "-7": intValue(-7), "true": boolValue(true), "false": boolValue(false), "x": stringValue("x"), "1.2.3": versionValue("1.2.3")} {
		if v.String() != want {
			t.Errorf("got %q, want %q", v.String(), want)
		}
	}
}

func TestShapeAttribute(t *testing.T) {
	text := func(s string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &s} }
	shape := newShape(given.Driver, &resourceapi.Device{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"model":                text("bare"),
		"both":                 text("bare"),
		"gpu.example.com/both": text("qualified"),
		"other.example.com/x":  text("foreign"),
	}})
	for range 2 { // the second time from memory
		for name, want := range map[resourceapi.FullyQualifiedName]string{
			"gpu.example.com/model":   "bare",
			"gpu.example.com/both":    "qualified",
			"other.example.com/x":     "foreign",
			"other.example.com/model": "",
			"gpu.example.com/x":       "",
			"model":                   "bare",
			"none":                    "",
		} {
			got, ok := shape.Attribute(name)
			if got.Scalar.String() != want || ok != (want != "") {
				t.Errorf("%s: got %q, %t, want %q", name, got.Scalar, ok, want)
			}
		}
	}
}

func TestShapeKeepsWhatIsAttached(t *testing.T) {
	shape := newShape(given.Driver, &resourceapi.Device{})
	first, second := new(int), new(int)
	for range 2 {
		if got := shape.Attach(func() any { return first }); got != first {
			t.Error("not the first result")
		}
		if got := shape.Attach(func() any { return second }); got != first {
			t.Error("a later result replaced the first")
		}
	}
	raced := newShape(given.Driver, &resourceapi.Device{})
	got := raced.Attach(func() any {
		raced.Attach(func() any { return first })
		return second
	})
	if got != first {
		t.Error("the loser of a race does not get the result that is kept")
	}
}

func TestEqualContentNoticesEveryField(t *testing.T) {
	// A new field in the API must be compared, too.
	for typ, fields := range map[reflect.Type]int{
		reflect.TypeFor[resourceapi.DeviceAttribute]():            8,
		reflect.TypeFor[resourceapi.DeviceCapacity]():             2,
		reflect.TypeFor[resourceapi.CapacityRequestPolicy]():      3,
		reflect.TypeFor[resourceapi.CapacityRequestPolicyRange](): 3,
	} {
		if got := typ.NumField(); got != fields {
			t.Errorf("%s has %d fields, equalContent compares %d", typ, got, fields)
		}
	}
}

func TestEqualContent(t *testing.T) {
	q := func(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }
	with := func(policy *resourceapi.CapacityRequestPolicy) *resourceapi.Device {
		return &resourceapi.Device{Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory": {Value: *q("8Gi"), RequestPolicy: policy},
		}}
	}
	attr := func(a resourceapi.DeviceAttribute) *resourceapi.Device {
		return &resourceapi.Device{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"a": a}}
	}
	different := []*resourceapi.Device{
		{},
		{AllowMultipleAllocations: ptr.To(false)},
		{AllowMultipleAllocations: ptr.To(true)},
		with(nil),
		with(&resourceapi.CapacityRequestPolicy{}),
		with(&resourceapi.CapacityRequestPolicy{Default: q("1Gi")}),
		with(&resourceapi.CapacityRequestPolicy{Default: q("1073741824")}),
		with(&resourceapi.CapacityRequestPolicy{Default: q("1")}),
		with(&resourceapi.CapacityRequestPolicy{Default: q("1000m")}),
		with(&resourceapi.CapacityRequestPolicy{Default: q("0")}),
		with(&resourceapi.CapacityRequestPolicy{Default: q("0e2000000000")}),
		with(&resourceapi.CapacityRequestPolicy{Default: q("1e2000000000")}),
		with(&resourceapi.CapacityRequestPolicy{Default: q("10e1999999999")}),
		with(&resourceapi.CapacityRequestPolicy{Default: q("1e30")}),
		with(&resourceapi.CapacityRequestPolicy{ValidValues: []resource.Quantity{*q("1Gi")}}),
		with(&resourceapi.CapacityRequestPolicy{ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: q("1Gi")}}),
		with(&resourceapi.CapacityRequestPolicy{ValidRange: &resourceapi.CapacityRequestPolicyRange{Max: q("1Gi")}}),
		with(&resourceapi.CapacityRequestPolicy{ValidRange: &resourceapi.CapacityRequestPolicyRange{Step: q("1Gi")}}),
		attr(resourceapi.DeviceAttribute{}),
		attr(resourceapi.DeviceAttribute{IntValue: ptr.To(int64(1))}),
		attr(resourceapi.DeviceAttribute{BoolValue: ptr.To(false)}),
		attr(resourceapi.DeviceAttribute{BoolValue: ptr.To(true)}),
		attr(resourceapi.DeviceAttribute{StringValue: ptr.To("1.0.0")}),
		attr(resourceapi.DeviceAttribute{VersionValue: ptr.To("1.0.0")}),
		attr(resourceapi.DeviceAttribute{IntValues: []int64{}}),
		attr(resourceapi.DeviceAttribute{IntValues: []int64{1}}),
		attr(resourceapi.DeviceAttribute{IntValues: []int64{1, 2}}),
		attr(resourceapi.DeviceAttribute{BoolValues: []bool{true}}),
		attr(resourceapi.DeviceAttribute{StringValues: []string{"a"}}),
		attr(resourceapi.DeviceAttribute{VersionValues: []string{"1.0.0"}}),
	}
	interned := NewSet()
	for i, a := range different {
		for j, b := range different {
			b = b.DeepCopy()
			b.Name = "renamed"
			if got := equalContent(a, b); got != (i == j) {
				t.Errorf("%d, %d: equal is %t", i, j, got)
			}
			if same := interned.Acquire(given.Driver, a, i, nil) == interned.Acquire(given.Driver, b, j, nil); same != (i == j) {
				t.Errorf("%d, %d: one shape is %t", i, j, same)
			}
		}
	}
	if interned.Acquire("other.example.com", different[0], 0, nil) == interned.Acquire(given.Driver, different[0], 0, nil) {
		t.Error("devices of two drivers share a shape")
	}
}
