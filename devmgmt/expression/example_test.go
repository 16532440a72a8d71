// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"fmt"

	"github.com/dray-project/dray/devmgmt/expression"
)

// The prototype names attributes without their driver.
func ExampleToV1() {
	text, err := expression.ToV1(`device.model == "H100"`, func(name string) (expression.Place, error) {
		return expression.Place{Domain: "gpu.example.com", ID: name}, nil
	})
	fmt.Println(text, err)
	// Output: device.attributes["gpu.example.com"].model == "H100" <nil>
}
