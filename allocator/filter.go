package allocator

import (
	"encoding/json"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cel"
)

// filter is what decides about single devices, without regard to other choices:
// selectors, tolerations, capacity, admin access. It is immutable but for what it keeps of
// its judgements, and equal ones are the same for all problems of an Allocator, so that
// shapes are judged once.
type filter struct {
	// id is unique within the Allocator.
	id          int64
	features    Features
	selectors   []selector
	admin       bool
	tolerations []resourceapi.DeviceToleration
	capacity    *resourceapi.CapacityRequirements
	// sight is what the selectors can tell about devices, nil if that is not known.
	sight      *sight
	rejections rejections
	judgements judgements
}

// selector is one CEL selector of a class or a request.
type selector struct {
	// origin says where it stands: "class gpu: selector 0" or "selector 2".
	origin     string
	expression string
	program    *cel.Program
	// err is set if the expression does not compile. It only counts once a
	// device is looked at, as in kube-scheduler.
	err error
}

// usedFilter is a filter in a Problem.
type usedFilter struct {
	*filter
	// mandatory is set if a request wants all devices that match.
	mandatory bool
}

// maxFilters is how many filters an Allocator keeps for problems to come.
const maxFilters = 1024

// use returns the position in Problem.filters of the filter for a class and request.
func (c *compiler) use(class *resourceapi.DeviceClass, t terms) (int, error) {
	f, err := c.problem.allocator.filter(class, t)
	if err != nil {
		return 0, err
	}
	position, known := c.filters[f]
	if !known {
		position = len(c.problem.filters)
		c.filters[f] = position
		c.problem.filters = append(c.problem.filters, usedFilter{filter: f})
	}
	if t.mode == resourceapi.DeviceAllocationModeAll {
		c.problem.filters[position].mandatory = true
	}
	return position, nil
}

// filter makes a filter, or returns the one made for the same content.
func (a *Allocator) filter(class *resourceapi.DeviceClass, t terms) (*filter, error) {
	admin := t.admin != nil && *t.admin
	key, err := json.Marshal([]any{class.Name, class.Spec.Selectors, t.selectors, admin, t.tolerations, exactly(t.capacity)})
	if err != nil {
		return nil, fmt.Errorf("request cannot be encoded: %w", err)
	}
	if known, ok := a.filters.Get(string(key)); ok {
		return known.(*filter), nil
	}
	// The filter outlives the claim, so it has copies of its own.
	f := &filter{id: a.filterIDs.Add(1), features: a.features, admin: admin, capacity: t.capacity.DeepCopy()}
	for i := range t.tolerations {
		f.tolerations = append(f.tolerations, *t.tolerations[i].DeepCopy())
	}
	if err := f.add(a.selector.programs, "class "+class.Name+": ", class.Spec.Selectors); err != nil {
		return nil, err
	}
	if err := f.add(a.selector.programs, "", t.selectors); err != nil {
		return nil, err
	}
	if err := f.setSight(a); err != nil {
		return nil, err
	}
	a.filters.Add(string(key), f)
	return f, nil
}

func (f *filter) setSight(a *Allocator) error {
	r := make(reads)
	ok, err := r.add(f.selectors)
	if ok {
		f.sight, err = a.sight(r)
	}
	return err
}

// exactly spells out what is requested. The text of a quantity does not: beyond the
// largest suffix, 1000000000000000000000 is written as 1.
func exactly(asked *resourceapi.CapacityRequirements) map[string][]any {
	if asked == nil {
		return nil
	}
	spelled := make(map[string][]any, len(asked.Requests))
	for name, quantity := range asked.Requests {
		number := quantity.AsDec() // of the copy that quantity is
		spelled[string(name)] = []any{number.UnscaledBig(), number.Scale(), quantity.Format}
	}
	return spelled
}

func (f *filter) add(programs *cel.Cache, owner string, selectors []resourceapi.DeviceSelector) error {
	for i, s := range selectors {
		origin := fmt.Sprintf("%sselector %d", owner, i)
		if s.CEL == nil {
			return errors.New(origin + ": cel is not set (unsupported kind of selector)")
		}
		program, err := programs.Selector(s.CEL.Expression)
		f.selectors = append(f.selectors, selector{
			origin: origin, expression: s.CEL.Expression, program: program, err: err,
		})
	}
	return nil
}
