// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"fmt"

	"github.com/dray-project/dray/devmgmt/translate"
	"github.com/dray-project/dray/devmgmt/v1alpha1"
)

// A pool of the prototype becomes ResourceSlices. What cannot be said is listed.
func ExampleToV1() {
	pool := &v1alpha1.DevicePool{}
	pool.Name, pool.Spec.Driver = "node-a", "gpu.example.com"
	pool.Spec.Devices = []v1alpha1.Device{{Name: "gpu-0"}, {Name: "gpu-1"}}
	v1, reasons := translate.ToV1(translate.Prototype{Pools: []*v1alpha1.DevicePool{pool}})
	for _, slice := range v1.Slices {
		fmt.Println(slice.Spec.Driver, slice.Spec.Pool.Name, len(slice.Spec.Devices))
	}
	fmt.Println(reasons)
	// Output:
	// gpu.example.com node-a 2
	// []
}
