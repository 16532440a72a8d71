package pools

import (
	"hash/maphash"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/internal/amount"
)

// shapes interns Shapes by content. It counts how many devices in the builder use
// each and forgets a Shape with the last of them, so that it stays as small as the
// cluster however often devices change. Counting beats weak pointers here: whether
// two devices share a Shape must not depend on when the garbage collector ran.
type shapes struct {
	seed   maphash.Seed
	byHash map[uint64][]*sharedShape
}

type sharedShape struct {
	shape *Shape
	// arrival is that of the source which brought the shape.
	arrival int
	hash    uint64
	uses    int
}

func newShapes() shapes {
	return shapes{seed: maphash.MakeSeed(), byHash: make(map[uint64][]*sharedShape)}
}

// acquire returns the shape of a device of a source. It has to be released once. Most
// devices of a slice that changes stay what they were: before is that of the device which
// was there, or nil.
func (s *shapes) acquire(driver string, device *resourceapi.Device, arrival int, before *sharedShape) *sharedShape {
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
	shared := &sharedShape{shape: newShape(driver, device), arrival: arrival, hash: hash, uses: 1}
	s.byHash[hash] = append(s.byHash[hash], shared)
	return shared
}

func (s *sharedShape) fits(driver string, device *resourceapi.Device) bool {
	return s.shape.Driver == driver && equalContent(s.shape.Device, device)
}

func (s *shapes) release(shared *sharedShape) {
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
func (s *shapes) hash(driver string, device *resourceapi.Device) uint64 {
	sum := maphash.String(s.seed, driver)
	for name, attribute := range device.Attributes {
		sum += maphash.Comparable(s.seed, hashedAttribute(name, &attribute))
	}
	for name, capacity := range device.Capacity {
		entry := hashedEntry{name: name, amount: amount.FromQuantity(capacity.Value)}
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
