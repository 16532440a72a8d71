package allocator

import (
	"context"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/pools"
)

// judgement is what a filter says of a shape, and so of all devices of that shape. It is
// immutable.
type judgement struct {
	// rejectedBy is the position of the selector that rejects the shape, -1 if none.
	rejectedBy int
	// use is what an allocation takes. Nil if rejected, or without the feature
	// ConsumableCapacity.
	use *consumption
}

// judge judges a shape, or remembers how it was judged. Errors of selectors are not
// remembered: one may be a cancellation.
func (e *evaluator) judge(ctx context.Context, f *filter, shape *pools.Shape) (*judgement, error) {
	notes := notesOf(shape)
	if known, ok := notes.judgements.get(f); ok {
		return known, nil
	}
	rejectedBy, err := e.matches(ctx, f.selectors, notes.device)
	if err != nil {
		return nil, err
	}
	v := &judgement{rejectedBy: rejectedBy}
	if rejectedBy < 0 && f.features.ConsumableCapacity {
		v.use = newConsumption(f.features, f.capacity, shape.Device)
	}
	v = f.judgements.intern(v)
	notes.judgements.add(f, v, maxNotes)
	return v, nil
}

// glance is judge for a device that is not in use in shares. It does not say what a whole
// device takes that can be had by whoever gets it.
func (e *evaluator) glance(ctx context.Context, f *filter, shape *pools.Shape) (rejectedBy int, use *consumption, err error) {
	if f.sight == nil {
		return e.judgeAnew(ctx, f, shape)
	}
	number := f.sight.number(shape)
	if number == 0 {
		return e.judgeAnew(ctx, f, shape)
	}
	if position, known := f.rejections.get(number); known {
		rejectedBy = int(position) - 1
	} else {
		if rejectedBy, err = e.matches(ctx, f.selectors, notesOf(shape).device); err != nil {
			return 0, nil, err
		}
		f.rejections.set(number, uint32(rejectedBy+1))
	}
	if rejectedBy >= 0 || !f.features.ConsumableCapacity || f.capacity == nil && notesOf(shape).plain {
		return rejectedBy, nil, nil
	}
	return e.judgeAnew(ctx, f, shape)
}

func (e *evaluator) judgeAnew(ctx context.Context, f *filter, shape *pools.Shape) (rejectedBy int, use *consumption, err error) {
	v, err := e.judge(ctx, f, shape)
	if err != nil {
		return 0, nil, err
	}
	return v.rejectedBy, v.use, nil
}

// judgements are what a filter said so far. It says the same of most shapes, which
// differ in what it does not look at, and keeping that once for all takes little memory.
type judgements struct {
	mu    sync.Mutex
	known []*judgement
}

// maxJudgements bounds what a judgement is compared to.
const maxJudgements = 16

// intern returns an equal judgement that is kept already, or keeps this one.
func (k *judgements) intern(v *judgement) *judgement {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, known := range k.known {
		if known.rejectedBy == v.rejectedBy && known.use.equal(v.use) {
			return known
		}
	}
	if len(k.known) < maxJudgements {
		k.known = append(k.known, v)
	}
	return v
}

// notes are kept with a shape for as long as it lives.
type notes struct {
	device     *cel.Device
	judgements noteList[*filter, *judgement]
	// seen has what sights number the shape with.
	seen noteList[*sight, uint32]
	// plain is set for whole devices of which everything can be taken.
	plain bool
}

// maxNotes bounds the judgements kept per shape. A cluster has a few classes and its
// claims a few kinds of selectors.
const maxNotes = 64

func notesOf(shape *pools.Shape) *notes {
	return shape.Attach(func() any {
		return &notes{
			device: cel.NewDevice(shape.Driver, shape.Device),
			plain:  !ptr.Deref(shape.Device.AllowMultipleAllocations, false) && unconditional(shape.Device.Capacity),
		}
	}).(*notes)
}

// unconditional reports whether everything that a device has can be taken together.
func unconditional(capacity map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) bool {
	for _, c := range capacity {
		if c.RequestPolicy != nil || c.Value.Sign() < 0 {
			return false
		}
	}
	return true
}
