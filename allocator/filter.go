package allocator

import (
	"encoding/json"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cel"
)

// filter is what decides about single devices, without regard to other choices:
// selectors, tolerations, capacity, admin access. Requests that ask for the same
// share one filter, so that each node's devices are judged once.
type filter struct {
	// index is the position in Problem.filters.
	index       int
	selectors   []selector
	admin       bool
	tolerations []resourceapi.DeviceToleration
	capacity    *resourceapi.CapacityRequirements
	// mandatory is set if a request wants all devices that match.
	mandatory bool
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

// filter returns the filter for a class and request, shared with equal ones.
func (c *compiler) filter(class *resourceapi.DeviceClass, t terms) (*filter, error) {
	key, err := filterKey(class, t)
	if err != nil {
		return nil, err
	}
	f := c.filters[key]
	if f == nil {
		f = &filter{
			index:       len(c.problem.filters),
			admin:       t.admin != nil && *t.admin,
			tolerations: t.tolerations,
			capacity:    t.capacity,
		}
		if err := c.selectors(f, "class "+class.Name+": ", class.Spec.Selectors); err != nil {
			return nil, err
		}
		if err := c.selectors(f, "", t.selectors); err != nil {
			return nil, err
		}
		c.filters[key] = f
		c.problem.filters = append(c.problem.filters, f)
	}
	f.mandatory = f.mandatory || t.mode == resourceapi.DeviceAllocationModeAll
	return f, nil
}

func filterKey(class *resourceapi.DeviceClass, t terms) (string, error) {
	key, err := json.Marshal([]any{class.Name, t.selectors, t.admin != nil && *t.admin, t.tolerations, t.capacity})
	if err != nil {
		return "", fmt.Errorf("request cannot be encoded: %w", err)
	}
	return string(key), nil
}

func (c *compiler) selectors(f *filter, owner string, selectors []resourceapi.DeviceSelector) error {
	for i, s := range selectors {
		origin := fmt.Sprintf("%sselector %d", owner, i)
		if s.CEL == nil {
			return errors.New(origin + ": cel is not set (unsupported kind of selector)")
		}
		program, err := c.problem.allocator.selector.programs.Selector(s.CEL.Expression)
		f.selectors = append(f.selectors, selector{
			origin: origin, expression: s.CEL.Expression, program: program, err: err,
		})
	}
	return nil
}
