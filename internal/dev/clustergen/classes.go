// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	gpuDriver = "gpu.example.com"
	nicDriver = "nic.example.com"
	// sharedDomain qualifies attributes that devices of both drivers carry.
	sharedDomain = "shared.example.com"
	anyClass     = "any"
)

func (g *generator) addClasses() {
	g.addClass(anyClass)
	for _, driver := range []string{gpuDriver, nicDriver} {
		g.addClass(classOf(driver), fmt.Sprintf(`device.driver == %q`, driver))
	}
	g.addClass("gpu-a", fmt.Sprintf(`device.driver == %q`, gpuDriver), modelIs(gpuDriver, "a"))
}

func (g *generator) addClass(name string, expressions ...string) {
	class := &resourceapi.DeviceClass{}
	class.Name = name
	for _, expression := range expressions {
		class.Spec.Selectors = append(class.Spec.Selectors, selector(expression))
	}
	if g.plan.configs {
		for i := range g.intn(3) {
			class.Spec.Config = append(class.Spec.Config, resourceapi.DeviceClassConfiguration{
				DeviceConfiguration: configuration(fmt.Sprintf("%s-%d", name, i)),
			})
		}
	}
	g.c.Classes = append(g.c.Classes, class)
}

func classOf(driver string) string {
	if driver == gpuDriver {
		return "gpu"
	}
	return "nic"
}

func selector(expression string) resourceapi.DeviceSelector {
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
}

func configuration(name string) resourceapi.DeviceConfiguration {
	return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
		Driver:     gpuDriver,
		Parameters: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"name":%q}`, name)},
	}}
}
