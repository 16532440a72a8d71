package eligibility

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"

	"github.com/dray-project/dray/allocator/internal/memo"
	"github.com/dray-project/dray/cel"
	"github.com/dray-project/dray/internal/index/shape"
)

// Evaluator compiles selectors and evaluates them on shapes of devices. What it finds out is
// remembered by what an expression reads, for all nodes and problems. It is safe for concurrent
// use.
type Evaluator struct {
	features    Features
	programs    *cel.Cache
	memo        *cel.Memo
	filters     *lru.Cache
	selections  *lru.Cache
	projections *lru.Cache
	// ids counts the filters and selections ever made.
	ids atomic.Int64
}

const (
	// maxResults is how many CEL results an Evaluator remembers.
	maxResults = 1 << 16
	// maxFilters is how many filters it keeps for problems to come.
	maxFilters = 1024
)

// NewEvaluator returns an Evaluator that compiles with the given cache.
func NewEvaluator(f Features, programs *cel.Cache) *Evaluator {
	return &Evaluator{
		features:    f,
		programs:    programs,
		memo:        cel.NewMemo(maxResults),
		filters:     lru.New(maxFilters),
		selections:  lru.New(maxFilters),
		projections: lru.New(maxProjections),
	}
}

// Features are what is switched on.
func (e *Evaluator) Features() Features { return e.features }

// Evaluations counts the expressions that were evaluated.
func (e *Evaluator) Evaluations() int64 { return e.memo.Evaluations() }

// matches tells the first selector that rejects the device (its position), or -1 if all hold.
// Selectors after a rejecting one are not evaluated, nor those that read what is not known.
func (e *Evaluator) matches(ctx context.Context, selectors []Selector, of *notes) (int, error) {
	for i := range selectors {
		s := &selectors[i]
		if s.err != nil {
			return i, fmt.Errorf("%s: %w", s.Origin(), s.err)
		}
		if _, unknown := of.unknown(s.program); unknown {
			return i, nil
		}
		matched, err := e.memo.Matches(ctx, s.program, of.device)
		if err != nil {
			return i, fmt.Errorf("%s: %w", s.Origin(), err)
		}
		if !matched {
			return i, nil
		}
	}
	return -1, nil
}

// Derived is an attribute that a request computes by CEL.
type Derived struct {
	Name       resourceapi.FullyQualifiedName
	Expression string
	program    *cel.Program
	err        error
}

// Derived compiles attributes. Errors count once a constraint asks for the attribute.
func (e *Evaluator) Derived(asked []resourceapi.DeviceDerivedAttribute) []Derived {
	var compiled []Derived
	for _, d := range asked {
		program, err := e.programs.Derived(d.Expression)
		compiled = append(compiled, Derived{Name: d.Name, Expression: d.Expression, program: program, err: err})
	}
	return compiled
}

// Attribute looks an attribute up for a request: derived ones hide those of the device.
func (e *Evaluator) Attribute(ctx context.Context, derived []Derived, of *shape.Shape, name resourceapi.FullyQualifiedName) (shape.Attribute, bool, error) {
	// The last one of a name counts, as in a map.
	for i := len(derived) - 1; i >= 0; i-- {
		d := &derived[i]
		if d.Name != name {
			continue
		}
		if d.err != nil {
			return shape.Attribute{}, false, fmt.Errorf("derived attribute %s: %w", name, d.err)
		}
		if _, unknown := notesOf(of).unknown(d.program); unknown {
			return shape.Attribute{}, false, nil
		}
		value, err := e.memo.Attribute(ctx, d.program, notesOf(of).device)
		if err != nil {
			return shape.Attribute{}, false, fmt.Errorf("derived attribute %s: %w", name, err)
		}
		return shape.AttributeOf(value), true, nil
	}
	value, found := of.Attribute(name)
	return value, found, nil
}

// Judgement is what a filter says of a shape, and so of all devices of that shape. It is
// immutable.
type Judgement struct {
	// RejectedBy is the position of the selector that rejects the shape, -1 if none does.
	RejectedBy int
	// Use is what an allocation takes. Nil if rejected, without the feature
	// ConsumableCapacity, and for a device that is not shared and can be had as a whole.
	Use *Consumption
}

// Rejects reports whether the filter has no use for the shape. An error of Use is none.
func (j Judgement) Rejects() bool {
	return j.RejectedBy >= 0 || j.Use != nil && j.Use.Refusal != ""
}

// Judge judges a shape. Errors are those of selectors, and are not remembered: one may be a
// cancellation. If the device is in use in shares, what is taken is always told.
func (e *Evaluator) Judge(ctx context.Context, f *Filter, shape *shape.Shape, shared bool) (Judgement, error) {
	if f.projection == nil || shared {
		return e.judge(ctx, f, shape)
	}
	number := f.projection.Number(shape)
	if number == 0 {
		return e.judge(ctx, f, shape)
	}
	position, known := f.rejections.Get(number)
	if !known {
		rejectedBy, err := e.matches(ctx, f.Selectors, notesOf(shape))
		if err != nil {
			return Judgement{}, err
		}
		position = uint32(rejectedBy + 1)
		f.rejections.Set(number, position)
	}
	if position > 0 || !f.features.ConsumableCapacity || f.Capacity == nil && notesOf(shape).plain {
		return Judgement{RejectedBy: int(position) - 1}, nil
	}
	return e.judge(ctx, f, shape)
}

// judge remembers judgements by shape.
func (e *Evaluator) judge(ctx context.Context, f *Filter, shape *shape.Shape) (Judgement, error) {
	notes := notesOf(shape)
	if known, ok := notes.judgements.Get(f); ok {
		return *known, nil
	}
	rejectedBy, err := e.matches(ctx, f.Selectors, notes)
	if err != nil {
		return Judgement{}, err
	}
	j := &Judgement{RejectedBy: rejectedBy}
	if rejectedBy < 0 && f.features.ConsumableCapacity {
		j.Use = newConsumption(f.features, f.Capacity, shape.Device)
	}
	j = f.judgements.intern(j)
	notes.judgements.Add(f, j, maxNotes)
	return *j, nil
}

// judgements are what a filter said so far. It says the same of most shapes, which differ in what
// it does not look at, and keeping that once for all takes little memory.
type judgements struct {
	mu    sync.Mutex
	known []*Judgement
}

// maxJudgements bounds what a judgement is compared to.
const maxJudgements = 16

// intern returns an equal judgement that is kept already, or keeps this one.
func (k *judgements) intern(j *Judgement) *Judgement {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, known := range k.known {
		if known.RejectedBy == j.RejectedBy && known.Use.equal(j.Use) {
			return known
		}
	}
	if len(k.known) < maxJudgements {
		k.known = append(k.known, j)
	}
	return j
}

// notes are kept with a shape for as long as it lives.
type notes struct {
	device     *cel.Device
	judgements memo.List[*Filter, *Judgement]
	// numbers has what projections number the shape with.
	numbers memo.List[*Projection, uint32]
	// plain is set for whole devices of which everything can be taken.
	plain bool
	// unknowns are attributes of which the value is not known yet.
	unknowns []cel.Name
}

// unknown returns an attribute that a program reads and of which the value is not known yet.
func (n *notes) unknown(p *cel.Program) (name cel.Name, found bool) {
	if len(n.unknowns) == 0 || p == nil {
		return cel.Name{}, false
	}
	reads := p.Reads()
	for _, name := range n.unknowns {
		if !reads.Exact || slices.Contains(reads.Attributes, name) {
			return name, true
		}
	}
	return cel.Name{}, false
}

// unknownsOf lists the attributes of which the value is not known yet.
func unknownsOf(s *shape.Shape) []cel.Name {
	var list []cel.Name
	for key, attribute := range s.Device.Attributes {
		if !shape.Unknown(&attribute) {
			continue
		}
		name := cel.Name{Domain: s.Driver, ID: string(key)}
		if domain, id, qualified := strings.Cut(string(key), "/"); qualified {
			name = cel.Name{Domain: domain, ID: id}
		}
		list = append(list, name)
	}
	slices.SortFunc(list, func(a, b cel.Name) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// maxNotes bounds the judgements kept per shape. A cluster has a few classes and its claims a few
// kinds of selectors.
const maxNotes = 64

func notesOf(shape *shape.Shape) *notes {
	return shape.Attach(func() any {
		return &notes{
			device:   cel.NewDevice(shape.Driver, shape.Device),
			unknowns: unknownsOf(shape),
			plain:    !ptr.Deref(shape.Device.AllowMultipleAllocations, false) && unconditional(shape.Device.Capacity),
		}
	}).(*notes)
}

// Plain reports whether a device is had as a whole or not at all, whatever capacity is asked for.
func Plain(shape *shape.Shape) bool { return notesOf(shape).plain }

// unconditional reports whether everything that a device has can be taken together.
func unconditional(capacity map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) bool {
	for _, c := range capacity {
		if c.RequestPolicy != nil || c.Value.Sign() < 0 {
			return false
		}
	}
	return true
}
