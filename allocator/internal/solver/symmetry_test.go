// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package solver_test

import (
	"slices"
	"testing"

	"github.com/dray-project/dray/allocator/internal/solver"
)

// Devices without a value are admitted as the first one only where values must differ. They are all alike, but only
// the first one comes before the device with a value.
func TestEqualDevicesInOrder(t *testing.T) {
	for name, values := range map[string][][]int32{
		"devices": {{}, {1}, {}},
		"states":  {{}, {1}, {}, {}},
	} {
		t.Run(name, func(t *testing.T) {
			var all []uint
			p := &solver.Problem{Claims: 2, MostOfClaim: 32, Relations: []solver.Relation{{Kind: solver.Distinct}}}
			for i := range values {
				all = append(all, uint(i))
				p.Devices = append(p.Devices, solver.Device{Pool: -1})
			}
			p.Domains = []solver.Domain{among(all...), covered(&solver.Column{Values: values}, all...)}
			p.Requests = []solver.Request{
				{Options: []solver.Option{{Domain: 0, Count: len(values) - 2}}},
				{Claim: 1, Options: []solver.Option{{Domain: 1, Count: 2}}},
			}
			naively := compareFound(t, p)
			if got := naively.choices[len(values)-2:]; !slices.Equal(got, []solver.Choice{{Request: 1, Device: 0}, {Request: 1, Device: 1}}) {
				t.Fatalf("trying everything chooses %v", naively.choices)
			}
		})
	}
}
