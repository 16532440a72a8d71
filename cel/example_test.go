// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel_test

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dray-project/dray/cel"
)

func exampleDevice(model string) *cel.Device {
	return cel.NewDevice("gpu.example.com", &resourceapi.Device{
		Name: "gpu-0",
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"model":   {StringValue: &model},
			"numa":    {IntValue: new(int64(1))},
			"version": {VersionValue: new("1.2.3")},
		},
	})
}

func ExampleCache_Selector() {
	cache := cel.NewCache(100)
	selector, err := cache.Selector(`device.attributes["gpu.example.com"].model == "h100"`)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, model := range []string{"a100", "h100"} {
		match, err := selector.Matches(context.Background(), exampleDevice(model))
		fmt.Println(model, match, err)
	}

	_, err = cache.Selector(`device.attribute["gpu.example.com"].model == "h100"`)
	fmt.Println(err)
	// Output:
	// a100 false <nil>
	// h100 true <nil>
	// CEL expression `device.attribute["gpu.example.com"].model == "h100"`, line 1, column 7: undefined field 'attribute'
}

func ExampleCache_Derived() {
	cache := cel.NewCache(100)
	derived, err := cache.Derived(`device.attributes["gpu.example.com"].numa % 2 == 1 ? "odd" : "even"`)
	if err != nil {
		fmt.Println(err)
		return
	}
	attribute, err := derived.Attribute(context.Background(), exampleDevice("h100"))
	fmt.Println(*attribute.StringValue, err)
	// Output: odd <nil>
}

func ExampleProgram_Reads() {
	cache := cel.NewCache(100)
	selector, err := cache.Selector(`cel.bind(gpu, device.attributes["gpu.example.com"],
		gpu.model == "h100" && has(gpu.healthy) && device.driver == "gpu.example.com")`)
	if err != nil {
		fmt.Println(err)
		return
	}
	reads := selector.Reads()
	fmt.Println(reads.Attributes, reads.Driver, reads.Exact)
	// Output: [gpu.example.com/healthy gpu.example.com/model] true true
}

func ExampleMemo() {
	memo, cache := cel.NewMemo(1000), cel.NewCache(100)
	selector, err := cache.Selector(`device.attributes["gpu.example.com"].model.lowerAscii().startsWith("h")`)
	if err != nil {
		fmt.Println(err)
		return
	}
	matches := 0
	for i := range 1000 {
		device := exampleDevice([]string{"a100", "h100"}[i%2])
		if match, err := memo.Matches(context.Background(), selector, device); match && err == nil {
			matches++
		}
	}
	fmt.Println(matches, "of 1000 devices match, found out with", memo.Evaluations(), "evaluations")
	// Output: 500 of 1000 devices match, found out with 2 evaluations
}
