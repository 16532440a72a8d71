package shape

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// equalContent compares what a Shape stands for, field by field: reflection would
// also see the inner form of quantities, which differs for equal ones and changes
// when they are printed. A test counts the fields of the compared API types.
func equalContent(a, b *resourceapi.Device) bool {
	return ptr.Equal(a.AllowMultipleAllocations, b.AllowMultipleAllocations) &&
		maps.EqualFunc(a.Attributes, b.Attributes, equalAttribute) &&
		maps.EqualFunc(a.Capacity, b.Capacity, equalCapacity)
}

func equalAttribute(a, b resourceapi.DeviceAttribute) bool {
	return ptr.Equal(a.IntValue, b.IntValue) &&
		ptr.Equal(a.BoolValue, b.BoolValue) &&
		ptr.Equal(a.StringValue, b.StringValue) &&
		ptr.Equal(a.VersionValue, b.VersionValue) &&
		equalLists(a.IntValues, b.IntValues) &&
		equalLists(a.BoolValues, b.BoolValues) &&
		equalLists(a.StringValues, b.StringValues) &&
		equalLists(a.VersionValues, b.VersionValues)
}

// equalLists distinguishes an empty list, which is a value, from none.
func equalLists[T comparable](a, b []T) bool {
	return (a == nil) == (b == nil) && slices.Equal(a, b)
}

func equalCapacity(a, b resourceapi.DeviceCapacity) bool {
	return equalQuantity(a.Value, b.Value) && equalPointers(a.RequestPolicy, b.RequestPolicy, equalPolicy)
}

func equalPolicy(a, b resourceapi.CapacityRequestPolicy) bool {
	return equalPointers(a.Default, b.Default, equalQuantity) &&
		slices.EqualFunc(a.ValidValues, b.ValidValues, equalQuantity) &&
		equalPointers(a.ValidRange, b.ValidRange, equalRange)
}

func equalRange(a, b resourceapi.CapacityRequestPolicyRange) bool {
	return equalPointers(a.Min, b.Min, equalQuantity) &&
		equalPointers(a.Max, b.Max, equalQuantity) &&
		equalPointers(a.Step, b.Step, equalQuantity)
}

// equalQuantity includes the format, because results are written in it, and the
// scale: to CEL, 1 is an integer and 1000m is not. Comparing unscaled numbers of one
// scale also takes no time that depends on the scale, which Quantity.Cmp does.
func equalQuantity(a, b resource.Quantity) bool {
	if a == b {
		return true
	}
	if a.Format != b.Format || isDecimal(a) != isDecimal(b) {
		return false
	}
	x, y := a.AsDec(), b.AsDec() // of copies: AsDec changes its receiver
	return x.Scale() == y.Scale() && x.UnscaledBig().Cmp(y.UnscaledBig()) == 0
}

// isDecimal reports whether an arbitrary-precision number is inside: its pointer is
// not equal to that of a copy.
func isDecimal(q resource.Quantity) bool { return q.DeepCopy() != q }

func equalPointers[T any](a, b *T, equal func(T, T) bool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return equal(*a, *b)
}
