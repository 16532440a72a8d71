// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"slices"

	"github.com/dray-project/dray/internal/index/shape"
	"github.com/dray-project/dray/internal/memo"
	"github.com/dray-project/dray/internal/reads"
)

// Values numbers the values that constraints compare, in order of appearance. Keys contain the numbers, as only
// equality of values matters.
type Values struct {
	List []shape.Value
	ids  map[shape.Value]int // positions in List, once it is long
}

// fewValues is the length up to which List is searched linearly.
const fewValues = 16

func (v *Values) append(k *memo.Key, value shape.Value) {
	n, known := v.find(value)
	if !known {
		n = len(v.List)
		v.List = append(v.List, value)
		if v.ids != nil {
			v.ids[value] = n
		}
	}
	k.Number(n)
}

func (v *Values) find(value shape.Value) (int, bool) {
	if len(v.List) <= fewValues {
		n := slices.Index(v.List, value)
		return n, n >= 0
	}
	if v.ids == nil {
		v.ids = make(map[shape.Value]int)
		for i, known := range v.List {
			v.ids[known] = i
		}
	}
	n, known := v.ids[value]
	return n, known
}

// Compared is an attribute of a device that a constraint compares with that of other devices.
type Compared struct {
	Values *Values
	shape.Attribute
	Found bool
}

// Attribute writes what a constraint reads of an attribute.
var Attribute = Writer[Compared]{
	{nil, func(k *memo.Key, c Compared) { k.Flags(c.Found, c.HasScalar, c.Unknown) }},
	{Rows(reads.Device, "Attributes[].IntValue", "Attributes[].BoolValue", "Attributes[].StringValue", "Attributes[].VersionValue",
		"Attributes[].IntValues[]", "Attributes[].BoolValues[]", "Attributes[].StringValues[]", "Attributes[].VersionValues[]"), func(k *memo.Key, c Compared) {
		c.Values.append(k, c.Scalar)
		k.Number(len(c.Set))
		for _, v := range c.Set {
			c.Values.append(k, v)
		}
	}},
}
