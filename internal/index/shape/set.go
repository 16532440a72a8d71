package shape

import (
	"hash/maphash"

	resourceapi "k8s.io/api/resource/v1"
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

// hashedEntry is the part of an attribute or capacity that tells devices apart in
// practice. Equal content must have equal parts; the rest is left to comparison.
type hashedEntry struct {
	name   resourceapi.QualifiedName
	kind   valueKind
	length int
	number int64
	text   string
	amount amount.Amount
}

// hash is a sum over the entries, because maps have no order.
func (s *Set) hash(driver string, device *resourceapi.Device) uint64 {
	sum := maphash.String(s.seed, driver)
	for name, attribute := range device.Attributes {
		sum += maphash.Comparable(s.seed, hashedAttribute(name, &attribute))
	}
	for name, capacity := range device.Capacity {
		entry := hashedEntry{name: name, amount: quantity.Amount(capacity.Value)}
		sum += maphash.Comparable(s.seed, entry)
	}
	return sum
}

func hashedAttribute(name resourceapi.QualifiedName, a *resourceapi.DeviceAttribute) hashedEntry {
	entry := hashedEntry{
		name:   name,
		number: ptr.Deref(a.IntValue, 0),
		length: len(a.IntValues) + len(a.BoolValues) + len(a.StringValues) + len(a.VersionValues),
	}
	switch {
	case a.StringValue != nil:
		entry.kind, entry.text = kindString, *a.StringValue
	case a.VersionValue != nil:
		entry.kind, entry.text = kindVersion, *a.VersionValue
	case a.BoolValue != nil && *a.BoolValue:
		entry.kind = kindBool
	case len(a.StringValues) > 0:
		entry.text = a.StringValues[0]
	case len(a.IntValues) > 0:
		entry.number = a.IntValues[0]
	}
	return entry
}
