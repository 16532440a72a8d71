package model

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/bits-and-blooms/bitset"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/index/shape"
)

// Column is an attribute of all devices of a node, with numbers for its values.
type Column struct {
	// Values are those of each device: nil if it has none that could be compared, empty if it
	// has the attribute with a type that is not known.
	Values [][]int32
	ids    map[shape.Value]int32
	// quantities are the values of a capacity by number. There are no ids then.
	quantities []resource.Quantity
	// errs are devices of which the attribute cannot be computed, stops their set. Nil if there
	// are none.
	errs  map[int32]error
	stops *bitset.BitSet
}

func (c *Column) set(i int, compared []shape.Value) {
	if compared == nil {
		return
	}
	numbers := make([]int32, len(compared))
	for k, v := range compared {
		numbers[k] = number(c.ids, v)
	}
	c.Values[i] = numbers
}

// columnOf looks an attribute of all devices up. It is kept with them.
func columnOf(d *eligibility.Devices, c claims.Constraint) *Column {
	if c.Capacity {
		// No attribute has a name like this.
		return d.Column("capacity "+c.Attribute, func() any { return capacityColumn(d, c.Attribute) }).(*Column)
	}
	name := c.Attribute
	if c.Kind == solver.Distinct {
		name = "distinct " + name // not all values that match are distinct
	}
	return d.Column(name, func() any {
		made := &Column{Values: make([][]int32, len(d.List)), ids: make(map[shape.Value]int32)}
		for i := range d.List {
			if value, found := d.List[i].Shape.Attribute(c.Attribute); found {
				made.set(i, c.Compared(value))
			}
		}
		return made
	}).(*Column)
}

// capacityColumn numbers what devices have of a capacity. There are few values on a node.
func capacityColumn(d *eligibility.Devices, name resourceapi.FullyQualifiedName) *Column {
	made := &Column{Values: make([][]int32, len(d.List))}
	domain, id, _ := strings.Cut(string(name), "/")
	for i := range d.List {
		capacity, found := d.List[i].Object.Capacity[resourceapi.QualifiedName(name)]
		if !found && domain == d.List[i].Shape.Driver {
			capacity, found = d.List[i].Object.Capacity[resourceapi.QualifiedName(id)]
		}
		if !found {
			continue
		}
		n := slices.IndexFunc(made.quantities, func(q resource.Quantity) bool { return q.Cmp(capacity.Value) == 0 })
		if n < 0 {
			n = len(made.quantities)
			made.quantities = append(made.quantities, capacity.Value.DeepCopy())
		}
		made.Values[i] = []int32{int32(n)}
	}
	return made
}

// derive looks up an attribute of the devices that a constraint may be asked about, with what an
// alternative computes. Values that devices have by themselves keep their numbers. Only cancellation
// is an error here.
func (in *Instance) derive(ctx context.Context, alt *claims.Alternative, c claims.Constraint, ids map[shape.Value]int32) (*Column, error) {
	made := &Column{Values: make([][]int32, len(in.Node.List)), ids: ids}
	compared := in.Alternatives[alt.ID].Domain.Compared()
	for i, ok := compared.NextSet(0); ok; i, ok = compared.NextSet(i + 1) {
		value, found, err := in.evaluator.Attribute(ctx, alt.Derived, in.Node.List[i].Shape, c.Attribute)
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		switch {
		case err != nil:
			if made.errs == nil {
				made.errs, made.stops = make(map[int32]error), in.sets.New(len(in.Node.List))
			}
			made.errs[int32(i)] = err
			made.stops.Set(i)
		case found:
			made.set(int(i), c.Compared(value))
		}
	}
	return made, nil
}

// bindConstraint gives the alternatives that a constraint covers their columns. All number values in
// the same way.
func (in *Instance) bindConstraint(ctx context.Context, position int) (err error) {
	own := columnOf(in.Node.Devices, in.Problem.Constraints[position])
	ids := own.ids
	for _, alt := range in.Problem.Alternatives {
		k := alt.Covered(position)
		if k < 0 {
			continue
		}
		bound := &in.Alternatives[alt.ID]
		if bound.Columns == nil {
			bound.Columns = in.columns.Take(len(alt.Constraints))
		}
		if bound.Columns[k] = own; len(alt.Derived) == 0 || in.Problem.Constraints[position].Capacity {
			continue
		}
		// The column of the devices is shared.
		ids = maps.Clone(ids)
		if bound.Columns[k], err = in.derive(ctx, alt, in.Problem.Constraints[position], ids); err != nil {
			return err
		}
		in.Literal = in.Literal || bound.Columns[k].errs != nil
	}
	in.values = append(in.values, int32(len(ids)+len(own.quantities)))
	return nil
}

// common are the values that the devices which a constraint holds have in common. There are none if
// one of them is not to be seen from the node, or has no such attribute.
func (in *Instance) common(constraint *claims.Constraint) []int32 {
	own := columnOf(in.Node.Devices, *constraint)
	var values []int32
	for n, held := range constraint.Held {
		i := slices.IndexFunc(in.Node.List, func(d eligibility.Device) bool {
			return d.Object.Name == held.Device && in.Node.Pools[d.Pool].ID.Driver == held.Driver && in.Node.Pools[d.Pool].ID.Name == held.Pool
		})
		if i < 0 {
			return []int32{}
		}
		if n == 0 {
			values = slices.Clone(own.Values[i])
			continue
		}
		values = slices.DeleteFunc(values, func(v int32) bool { return !slices.Contains(own.Values[i], v) })
	}
	return values
}
