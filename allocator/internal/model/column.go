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

// Column holds an attribute or capacity of all devices of a node, with numbers for its values.
type Column struct {
	// Values are nil for a device without a comparable value. They are empty for a device whose attribute has
	// an unknown type.
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

// columnKey is all that a column depends on besides the devices. The comparison is part of it, as allocators
// with different features share the devices.
type columnKey struct {
	claims.Comparison
	attribute resourceapi.FullyQualifiedName
}

// maxColumns bounds the columns that are cached with devices.
const maxColumns = 8

// column returns an attribute or a capacity of all devices.
func (in *Instance) column(c claims.Constraint) *Column {
	key := columnKey{c.Comparison(), c.Attribute}
	if known, ok := in.frame.columns.Get(key); ok {
		return known
	}
	made := newColumn(len(in.Node.List), make(map[shape.Value]int32))
	var quantities []resource.Quantity // by number; a node has few
	for i := range in.Node.List {
		d := &in.Node.List[i]
		if c.Capacity {
			if capacity, found := shape.Published(d.Shape.Driver, d.Object.Capacity, c.Attribute); found {
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

// constrain adds the relation of a constraint, and its column to the domains that it covers. Equal values have
// equal numbers in all columns of the constraint. It only returns the error of a cancelled context.
func (in *Instance) constrain(ctx context.Context, position int) error {
	c := in.Compiled.Constraints[position]
	shared := in.column(c)
	r := solver.Relation{Kind: c.Kind, Most: c.Most, Off: c.Preferred}
	if len(c.Held) > 0 {
		r.Begun, r.Left = true, in.common(shared, c.Held)
	}
	in.problem.Relations = append(in.problem.Relations, r)
	ids := shared.ids
	for k, alt := range in.Compiled.Domains {
		if alt.Covered(position) < 0 {
			continue
		}
		cover := solver.Cover{Relation: int32(len(in.frame.groups) + position), Column: &shared.Column}
		if len(alt.Derived) > 0 && !c.Capacity {
			// The numbers in the column of the devices are shared by all problems, so they must not change.
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

// derive makes a column with derived attributes for the devices that the constraint may compare. Values that
// devices publish keep their numbers.
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

// common returns the values that held devices have in common. There are none if the node cannot reach one of
// the devices, or if one lacks the attribute.
func (in *Instance) common(shared *Column, held []pool.DeviceID) (values []int32) {
	for n, id := range held {
		i := slices.IndexFunc(in.Node.List, func(d eligibility.Device) bool {
			of := in.Node.Pools[d.Pool].ID
			return d.Object.Name == id.Device && of.Driver == id.Driver && of.Name == id.Pool
		})
		if i < 0 {
			return []int32{}
		}
		if n == 0 {
			values = slices.Clone(shared.Values[i])
			continue
		}
		values = slices.DeleteFunc(values, func(v int32) bool { return !slices.Contains(shared.Values[i], v) })
	}
	return values
}
