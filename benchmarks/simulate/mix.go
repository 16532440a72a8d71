// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/dray-project/dray/simulate/mix"
)

// buying asks for the cheapest new nodes. No other program answers that for devices, so the lower
// bound is given instead of a peer.
func (b *bench) buying() []row {
	question := func() mix.Question {
		q := mix.Question{}
		for i, spec := range b.world.specs {
			devices := 0
			for _, slice := range spec.Slices {
				devices += len(slice.Spec.Devices)
			}
			spec.Price = float64(devices) * (1 + float64(i%7)/20)
			t, err := b.state.Template(spec)
			must(err)
			q.Types = append(q.Types, t)
		}
		for i := range 500 {
			pod := b.world.shapes[i%len(b.world.shapes)].DeepCopy()
			pod.Name = fmt.Sprint("wanted-", i)
			q.Pods = append(q.Pods, pod)
		}
		return q
	}
	find := func(q mix.Question) *mix.Plan {
		plan, err := mix.Find(b, b.state, q)
		must(err)
		return plan
	}
	return []row{
		{name: "the cheapest nodes for 500 pods, of 20 types", needed: "≤ 1 s", measure: func() figures {
			q := question()
			return per(func() { must(b.open()); q = question() }, func(int) { find(q) })
		}},
		{name: "what these cost, beside the lower bound", needed: "≤ 1.02×", measure: func() figures {
			plan := find(question())
			if !plan.All() {
				panic("pods have no place")
			}
			return figures{ratio: plan.Cost / plan.Bound}
		}},
	}
}
