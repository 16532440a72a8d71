// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cel

import (
	"context"
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	upstream "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"
)

// nested are selectors within the cost limit of the API that are slow all the same.
var nested = map[string]string{
	"two":   ownAttributes + `.all(a, ` + ownAttributes + `.exists(b, a == b))`,
	"three": ownAttributes + `.exists(a, ` + ownAttributes + `.exists(b, ` + ownAttributes + `.exists(c, a == b && c == "x")))`,
}

const ownAttributes = `device.attributes["gpu.example.com"]`

// evaluators are ours and that of Kubernetes, for one of the nested selectors.
func evaluators(t testing.TB, expression string) map[string]func(context.Context, *resourceapi.Device) (bool, error) {
	t.Helper()
	const driver = "gpu.example.com"
	program, theirs, difference := compareCompiled(expression, upstream.Features{}, false)
	if difference != "" || program == nil {
		t.Fatal(difference, theirs.Error)
	}
	return map[string]func(context.Context, *resourceapi.Device) (bool, error){
		"dray": func(ctx context.Context, d *resourceapi.Device) (bool, error) {
			return program.Matches(ctx, NewDevice(driver, d))
		},
		"upstream": func(ctx context.Context, d *resourceapi.Device) (bool, error) {
			match, _, err := theirs.DeviceMatches(ctx, peerDevice(driver, d))
			return match, err
		},
	}
}

// withAttributes makes devices that are all different.
func withAttributes(devices, attributes int) []*resourceapi.Device {
	all := make([]*resourceapi.Device, devices)
	for i := range all {
		all[i] = &resourceapi.Device{Name: fmt.Sprint("gpu-", i), Attributes: make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute)}
		for k := range attributes {
			all[i].Attributes[resourceapi.QualifiedName(fmt.Sprint("a", k))] = resourceapi.DeviceAttribute{StringValue: ptr.To(fmt.Sprint(i, "-", k))}
		}
	}
	return all
}

// BenchmarkNestedComprehensions evaluates slow selectors on devices that are all different.
// Beside it is what Kubernetes takes.
func BenchmarkNestedComprehensions(b *testing.B) {
	all := withAttributes(64, 20)
	for name, expression := range nested {
		for peer, matches := range evaluators(b, expression) {
			b.Run(name+"/"+peer, func(b *testing.B) {
				b.ReportAllocs()
				for i := range b.N {
					if _, err := matches(b.Context(), all[i%len(all)]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// TestNestedComprehensionsAllocateLess than with the package of Kubernetes: that, unlike the
// time, is the same on each machine.
func TestNestedComprehensionsAllocateLess(t *testing.T) {
	device := withAttributes(1, 20)[0]
	for name, expression := range nested {
		allocations := make(map[string]float64)
		for peer, matches := range evaluators(t, expression) {
			allocations[peer] = testing.AllocsPerRun(5, func() {
				if _, err := matches(t.Context(), device); err != nil {
					t.Error(err)
				}
			})
		}
		if allocations["dray"] >= allocations["upstream"] {
			t.Errorf("%s: %v allocations, upstream %v", name, allocations["dray"], allocations["upstream"])
		}
	}
}
