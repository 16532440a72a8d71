// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dray-project/dray/allocator/internal/claims"
	"github.com/dray-project/dray/allocator/internal/eligibility"
	"github.com/dray-project/dray/allocator/internal/solver"
	"github.com/dray-project/dray/internal/index/pool"
	"github.com/dray-project/dray/internal/index/shape"
)

// Column is an attribute of all devices of a node, with numbers for its values.
type Column struct {
	// Values are nil for a device that has none that could be compared, empty if it has the
	// attribute with a type that is not known.
	solver.Column
	ids map[shape.Value]int32
}

func newColumn(devices int, ids map[shape.Value]int32) *Column {
	return &Column{Column: solver.Column{Values: make([][]int32, devices)}, ids: ids}
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

// columnKey is all that a column depends on beside the devices. Several allocators, of which the features differ, may ask
// about the same ones.
type columnKey struct {
	claims.Comparison
	attribute resourceapi.FullyQualifiedName
}

// maxColumns bounds the columns that are kept with devices.
const maxColumns = 8

// column looks an attribute or a capacity of all devices up.
func (in *Instance) column(c claims.Constraint) *Column {
	key := columnKey{c.Comparison(), c.Attribute}
	if known, ok := in.frame.columns.Get(key); ok {
		return known
	}
	made := newColumn(len(in.Node.List), make(map[shape.Value]int32))
	var quantities []resource.Quantity // by number; there are few on a node
	for i := range in.Node.List {
		d := &in.Node.List[i]
		if c.Capacity {
			if capacity, found := published(d.Device, d.Object.Capacity, c.Attribute); found {
				n := slices.IndexFunc(quantities, func(q resource.Quantity) bool { return q.Cmp(capacity.Value) == 0 })
				if n < 0 {
					n, quantities = len(quantities), append(quantities, capacity.Value.DeepCopy())
				}
				made.Values[i] = []int32{int32(n)}
			}
		} else if value, found := d.Shape.Attribute(c.Attribute); found {
			made.set(i, c.Compared(value))
		}
	}
	in.frame.columns.Add(key, made, maxColumns)
	return made
}

// constrain adds the relation of a constraint, and its column to the domains that it covers. All number
// values in the same way. Only cancellation is an error here.
func (in *Instance) constrain(ctx context.Context, position int) error {
	c := in.Problem.Constraints[position]
	own := in.column(c)
	r := solver.Relation{Kind: c.Kind, Most: c.Most, Off: c.Preferred}
	if len(c.Held) > 0 {
		r.Begun, r.Left = true, in.common(own, c.Held)
	}
	in.problem.Relations = append(in.problem.Relations, r)
	ids := own.ids
	for k, alt := range in.Problem.Domains {
		if alt.Covered(position) < 0 {
			continue
		}
		cover := solver.Cover{Relation: int32(len(in.frame.groups) + position), Column: &own.Column}
		if len(alt.Derived) > 0 && !c.Capacity {
			// The column of the devices is shared.
			ids = maps.Clone(ids)
			if err := in.derive(ctx, alt, c, ids, &cover); err != nil {
				return err
			}
			in.Literal = in.Literal || cover.Stops != nil
		}
		domain := &in.problem.Domains[k]
		domain.Covers = append(domain.Covers, cover)
	}
	return nil
}

// derive looks up an attribute of the devices that a constraint may be asked about, with what
// alternatives compute. Values that devices have by themselves keep their numbers.
func (in *Instance) derive(ctx context.Context, alt *claims.Alternative, c claims.Constraint, ids map[shape.Value]int32, cover *solver.Cover) error {
	made := newColumn(len(in.Node.List), ids)
	cover.Column = &made.Column
	compared := in.Domain(alt).Allowed.Union(in.Domain(alt).Exhausted)
	for i, ok := compared.NextSet(0); ok; i, ok = compared.NextSet(i + 1) {
		value, found, err := in.Evaluator.Attribute(ctx, alt.Derived, in.Node.List[i].Shape, c.Attribute)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		switch {
		case err != nil:
			if cover.Stops == nil {
				cover.Stops = in.memory.sets.New(len(in.Node.List))
			}
			cover.Stops.Set(i)
		case found:
			made.set(int(i), c.Compared(value))
		}
	}
	return nil
}

// common are the values that devices which are held already have in common. There are none if
// one of them is not to be seen from the node, or has no such attribute.
func (in *Instance) common(own *Column, held []pool.DeviceID) (values []int32) {
	for n, id := range held {
		i := slices.IndexFunc(in.Node.List, func(d eligibility.Device) bool {
			of := in.Node.Pools[d.Pool].ID
			return d.Object.Name == id.Device && of.Driver == id.Driver && of.Name == id.Pool
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
