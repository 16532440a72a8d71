// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"fmt"

	"github.com/dray-project/dray/devmgmt/v1alpha1"
	"github.com/dray-project/dray/devmgmt/validation"
)

func ExamplePool() {
	pool := &v1alpha1.DevicePool{}
	pool.Name, pool.Spec.Driver = "node-a", "gpu.example.com"
	for _, err := range validation.Pool(pool) {
		fmt.Println(err)
	}
	// Output: spec.devices: Required value
}
