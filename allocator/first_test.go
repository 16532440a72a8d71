// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
)

// singles are the claims of a case with one request for one device each, and without constraints.
func singles(claims []*resourceapi.ResourceClaim) (list []*resourceapi.ResourceClaim) {
	for _, c := range claims {
		for _, r := range c.Spec.Devices.Requests {
			if r.Exactly == nil || r.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll {
				continue
			}
			made := c.DeepCopy()
			made.Spec.Devices.Constraints, made.Spec.Devices.Config = nil, nil
			made.Spec.Devices.Requests = []resourceapi.DeviceRequest{*r.DeepCopy()}
			made.Spec.Devices.Requests[0].Exactly.Count = 1
			list = append(list, made)
		}
	}
	return list
}

// repeated is what an allocator says again and again, with the devices of all rounds before in use.
func repeated(ctx context.Context, a *allocator.Allocator, q question, node *corev1.Node) (texts []string, partial bool) {
	problem, err := a.Compile(q.Claims, allocator.ClassMap(q.Classes...))
	if err != nil {
		return []string{err.Error()}, false
	}
	for outcome, err := range problem.Repeat(ctx, q.ledger.State(), node) {
		if err != nil {
			return append(texts, err.Error()), partial
		}
		if len(texts) == 0 {
			partial = outcome.Literal()
		}
		if o, ok := outcome.(*allocator.Assignment); ok {
			texts = append(texts, fmt.Sprint(o.Choices()))
		} else {
			texts = append(texts, outcome.Verdict().String())
		}
	}
	return texts, partial
}

// A claim for one device has the same answer whether all devices are judged before the search or one after the other.
// So do the answers that follow.
func TestFirstDeviceIsTheSame(t *testing.T) {
	ctx := context.Background()
	asked, early, failed := 0, 0, 0
	for seed := range uint64(fewer(1500)) {
		q := generate(t, 7000+seed)
		for _, c := range singles(q.Claims) {
			q.Claims = []*resourceapi.ResourceClaim{c}
			for _, node := range q.Nodes {
				all := unasked(allocator.Options{Features: q.Features}).JudgingUpTo(1 << 30)
				first := unasked(allocator.Options{Features: q.Features}).JudgingUpTo(0)
				want, _ := says(ctx, all, q, node)
				got, _ := says(ctx, first, q, node)
				if asked++; got != want {
					t.Errorf("seed %d, node %s: one by one\n%s\nall\n%s", 7000+seed, node.Name, got, want)
				}
				wants, literal := repeated(ctx, all, q, node)
				gots, partial := repeated(ctx, first, q, node)
				if !slices.Equal(gots, wants) || literal && !partial {
					t.Errorf("seed %d, node %s: one by one\n%s, %t\nall\n%s, %t", 7000+seed, node.Name, gots, partial, wants, literal)
				}
				if partial && !literal {
					early++
				}
				if want == wants[0] && len(wants) == 1 {
					failed++ // an error
				}
			}
		}
	}
	if asked < fewer(5000) || early < fewer(3000) || failed < fewer(50) {
		t.Errorf("of %d answers, %d were found before all devices were judged, and %d are errors: too few", asked, early, failed)
	}
}
