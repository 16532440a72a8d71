// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"fmt"
	"math/rand/v2"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// TestNewestFirst: the highest generation comes first, and names are in order within one, whatever the order was.
func TestNewestFirst(t *testing.T) {
	var stored []*resourceapi.ResourceSlice
	for i := range 6 {
		slice := &resourceapi.ResourceSlice{}
		slice.Name, slice.Spec.Pool.Generation = fmt.Sprint("slice-", i), int64(i%3)
		stored = append(stored, slice)
	}
	for seed := range uint64(20) {
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(stored), func(i, j int) { stored[i], stored[j] = stored[j], stored[i] })
		got := ""
		for _, slice := range newestFirst(stored) {
			got += slice.Name + " "
		}
		if want := "slice-2 slice-5 slice-1 slice-4 slice-0 slice-3 "; got != want {
			t.Fatalf("sorted %s, want %s", got, want)
		}
	}
}
