// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Equal describes how two answers differ; it returns "" if they do not. Share IDs
// only have to be present on the same devices, quantities have to be equal by value,
// and nil equals empty.
func Equal(a, b []resourceapi.AllocationResult) string {
	a, b = withoutShareIDs(a), withoutShareIDs(b)
	if equality.Semantic.DeepEqual(a, b) {
		return ""
	}
	return cmp.Diff(a, b, cmpopts.EquateEmpty())
}

func withoutShareIDs(results []resourceapi.AllocationResult) []resourceapi.AllocationResult {
	masked := make([]resourceapi.AllocationResult, len(results))
	for i := range results {
		masked[i] = *results[i].DeepCopy()
		devices := masked[i].Devices.Results
		for d := range devices {
			if devices[d].ShareID != nil {
				devices[d].ShareID = ptr.To(types.UID("some share"))
			}
		}
	}
	return masked
}
