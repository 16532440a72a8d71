package eligibility

import (
	"errors"
	"fmt"
	"math"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// roundIntoRange raises a value to the range's minimum, or to the next step above
// it. A result that int64 cannot hold is an error.
func roundIntoRange(f Features, asked resource.Quantity, r *resourceapi.CapacityRequestPolicyRange) (resource.Quantity, error) {
	if asked.Cmp(*r.Min) < 0 {
		return r.Min.DeepCopy(), nil
	}
	if r.Step == nil {
		return asked.DeepCopy(), nil
	}
	unit := rangeUnit(f, r)
	value, ok := unit.of(asked)
	if !ok {
		return resource.Quantity{}, fmt.Errorf("request %s is too large or too fine for its valid range", asked.String())
	}
	low, _ := unit.of(*r.Min)
	step, _ := unit.of(*r.Step)
	if step == 0 {
		return resource.Quantity{}, errors.New("the step of its valid range is zero")
	}
	steps := (value - low) / step
	if (value-low)%step != 0 {
		steps++
	}
	if low >= 0 && steps > (math.MaxInt64-low)/step {
		return resource.Quantity{}, fmt.Errorf("request %s is too large to be rounded to a step of its valid range", asked.String())
	}
	return unit.quantity(low+step*steps, r.Step.Format), nil
}

func violatesRange(f Features, taken resource.Quantity, r *resourceapi.CapacityRequestPolicyRange) bool {
	if r.Max != nil && taken.Cmp(*r.Max) > 0 {
		return true
	}
	if r.Step == nil {
		return false
	}
	unit := rangeUnit(f, r)
	value, ok := unit.of(taken)
	if !ok && unit == milli {
		return true
	}
	low := int64(0)
	if r.Min != nil {
		low, _ = unit.of(*r.Min)
	}
	step, _ := unit.of(*r.Step)
	return step == 0 || (value-low)%step != 0
}

// granularity is the unit in which a valid range is computed.
type granularity int

const (
	whole granularity = iota
	milli
)

// rangeUnit is milli if fractional ranges are on and all bounds are whole
// thousandths that int64 holds, else whole units.
func rangeUnit(f Features, r *resourceapi.CapacityRequestPolicyRange) granularity {
	if !f.FractionalCapacityRange {
		return whole
	}
	for _, q := range []*resource.Quantity{r.Min, r.Max, r.Step} {
		if q == nil {
			continue
		}
		if _, ok := milli.of(*q); !ok {
			return whole
		}
	}
	if r.Step != nil && r.Step.MilliValue() < 1 {
		return whole
	}
	return milli
}

// of returns q in the unit, and whether int64 holds it (for milli: without
// rounding; whole units are rounded up as Quantity.Value does).
func (g granularity) of(q resource.Quantity) (int64, bool) {
	if g == whole {
		return q.Value(), q.CmpInt64(math.MaxInt64) <= 0
	}
	value := q.MilliValue()
	return value, q.Cmp(*resource.NewMilliQuantity(value, q.Format)) == 0
}

func (g granularity) quantity(value int64, f resource.Format) resource.Quantity {
	if g == milli && value%1000 != 0 {
		return *resource.NewMilliQuantity(value, f)
	}
	if g == milli {
		value /= 1000
	}
	return *resource.NewQuantity(value, f)
}
