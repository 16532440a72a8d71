// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package onenode

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/allocator"
	"github.com/dray-project/dray/allocator/extension"
)

func newAsker(t *testing.T) *Asker {
	t.Helper()
	k, err := New(Options{Features: allocator.AllFeatures(), Budget: allocator.DefaultBudget}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// What is known of equal things stays from one cluster to the next until it is too much. Numbers are not given
// again, as answers are remembered with them.
func TestNextForgetsWhatIsTooMuch(t *testing.T) {
	k := newAsker(t)
	spec := func(k *Asker, i int) *Spec {
		return k.Spec(&resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: fmt.Sprint("r", i)}}}, extension.Claim{})
	}
	for i := range maxInterned {
		spec(k, i)
	}
	next := k.Next(nil, 0, 0)
	first := spec(k, 0)
	if n := next.Sizes().Specs; n != maxInterned || spec(next, 0) != first {
		t.Errorf("%d specs are known, want %d, and the same ones", n, maxInterned)
	}
	spec(next, maxInterned)
	next = next.Next(nil, 0, 0)
	if n := next.Sizes().Specs; n != 0 {
		t.Errorf("%d specs are known, want none", n)
	}
	if again := spec(next, 0); again.ID <= maxInterned {
		t.Errorf("the number %d is given again", again.ID)
	}
}
