package shape

import (
	"hash/maphash"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/amount"
	"github.com/dray-project/dray/internal/quantity"
)

// Set interns Shapes by content. It counts how many devices in the builder use
// each and forgets a Shape with the last of them, so that it stays as small as the
// cluster however often devices change. Counting beats weak pointers here: whether
// two devices share a Shape must not depend on when the garbage collector ran.
type Set struct {
	seed   maphash.Seed
	byHash map[uint64][]*Shared
}

// Shared is a Shape in use.
type Shared struct {
	shape *Shape
	// arrival is that of the source which brought the shape.
	arrival int
	hash    uint64
	uses    int
}

// Len is the number of different hashes among the shapes in use.
func (s *Set) Len() int { return len(s.byHash) }

// NewSet returns an empty Set.
func NewSet() Set {
	return Set{seed: maphash.MakeSeed(), byHash: make(map[uint64][]*Shared)}
}

// Acquire returns the shape of a device of a source. It has to be released once. Most
// devices of a slice that changes stay what they were: before is that of the device which
// was there, or nil.
func (s *Set) Acquire(driver string, device *resourceapi.Device, arrival int, before *Shared) *Shared {
	if before != nil && before.fits(driver, device) {
		before.uses++
		return before
	}
	hash := s.hash(driver, device)
	for _, shared := range s.byHash[hash] {
		if shared.fits(driver, device) {
			shared.uses++
			return shared
		}
	}
	shared := &Shared{shape: newShape(driver, device), arrival: arrival, hash: hash, uses: 1}
	s.byHash[hash] = append(s.byHash[hash], shared)
	return shared
}

func (s *Shared) fits(driver string, device *resourceapi.Device) bool {
	return s.shape.Driver == driver && equalContent(s.shape.Device, device)
}

// Renew makes the shape anew if only this arrival uses it and another one brought it, which
// is gone: it has the attributes of that one, and would keep them for as long as devices
// are alike.
func (s *Shared) Renew(driver string, device *resourceapi.Device, arrival int) {
	if s.uses == 1 && s.arrival != arrival {
		s.shape, s.arrival = newShape(driver, device), arrival
	}
}

// Shape returns the shape.
func (s *Shared) Shape() *Shape { return s.shape }

// Release takes back one Acquire.
func (s *Set) Release(shared *Shared) {
	if shared.uses--; shared.uses > 0 {
		return
	}
	bucket := s.byHash[shared.hash]
	for i := range bucket {
		if bucket[i] == shared {
			bucket[i] = bucket[len(bucket)-1]
			bucket = bucket[:len(bucket)-1]
			break
		}
	}
	s.byHash[shared.hash] = bucket
	if len(bucket) == 0 {
		delete(s.byHash, shared.hash)
	}
}

// hashedAttribute and hashedCapacity are the parts that tell devices apart in practice. Equal
// content must have equal parts; the rest is left to comparison.
type hashedAttribute struct {
	name          resourceapi.QualifiedName
	number        int64
	flag          bool
	text, version string
	length        int // of the list
	first         string
	firstNumber   int64
}

type hashedCapacity struct {
	name   resourceapi.QualifiedName
	amount amount.Amount
}

// hash is a sum over the entries, because maps have no order.
func (s *Set) hash(driver string, device *resourceapi.Device) uint64 {
	sum := maphash.String(s.seed, driver)
	for name, a := range device.Attributes {
		sum += maphash.Comparable(s.seed, hashedAttribute{
			name:   name,
			number: ptr.Deref(a.IntValue, 0), flag: ptr.Deref(a.BoolValue, false),
			text: ptr.Deref(a.StringValue, ""), version: ptr.Deref(a.VersionValue, ""),
			length: len(a.IntValues) + len(a.BoolValues) + len(a.StringValues) + len(a.VersionValues),
			first:  first(a.StringValues), firstNumber: first(a.IntValues),
		})
	}
	for name, capacity := range device.Capacity {
		sum += maphash.Comparable(s.seed, hashedCapacity{name, quantity.Amount(capacity.Value)})
	}
	return sum
}

// first returns the zero value for an empty list.
func first[T any](list []T) (element T) {
	if len(list) > 0 {
		return list[0]
	}
	return element
}

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
