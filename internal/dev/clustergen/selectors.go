// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package clustergen

import (
	"fmt"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

func modelIs(driver, model string) string {
	return fmt.Sprintf(`device.attributes[%q].?model.orValue("") == %q`, driver, model)
}

// forDriver fills in a template.
func forDriver(template, driver string) string {
	return strings.ReplaceAll(template, "DRIVER", strconv.Quote(driver))
}

// expression yields a selector for devices of a driver. No expression fails, however
// little a device publishes.
func (g *generator) expression(driver string) string {
	return forDriver(pick(g, g.templates()...), driver)
}

func (g *generator) templates() []string {
	templates := []string{
		`device.attributes[DRIVER].?model.orValue("") == "a"`,
		`device.attributes[DRIVER].?model.orValue("") != "a"`,
		`device.attributes[DRIVER].?model.orValue("") in ["a", "b"]`,
		`device.attributes[DRIVER].?model.orValue("x").startsWith("b") || device.driver != DRIVER`,
		`device.attributes[DRIVER].?numa.orValue(-1) == 0`,
		`device.attributes[DRIVER].?numa.orValue(-1) >= 1`,
		`device.attributes[DRIVER].?numa.orValue(-1) % 2 == 0`,
		`device.attributes[DRIVER].?ready.orValue(false)`,
		`!device.attributes[DRIVER].?ready.orValue(false)`,
		`"firmware" in device.attributes[DRIVER] && device.attributes[DRIVER].firmware.compareTo(semver("1.2.0")) >= 0`,
		`"firmware" in device.attributes[DRIVER] && device.attributes[DRIVER].firmware.isLessThan(semver("2.0.0"))`,
		`"memory" in device.capacity[DRIVER] && device.capacity[DRIVER].memory.compareTo(quantity("4Gi")) >= 0`,
		`device.capacity[DRIVER].?memory.orValue(quantity("1Gi")).isLessThan(quantity("8Gi"))`,
		`device.attributes["shared.example.com"].?root.orValue("") != "pci-0"`,
		`"spare" in device.attributes[DRIVER]`,
		`device.driver == DRIVER`,
	}
	if g.plan.lists && g.c.Features.ListTypeAttributes {
		templates = append(templates,
			`"links" in device.attributes[DRIVER] && device.attributes[DRIVER].links.includes(1)`,
			`"links" in device.attributes[DRIVER] && !device.attributes[DRIVER].links.includes(2)`,
			`"lanes" in device.attributes[DRIVER] && device.attributes[DRIVER].lanes.exists(l, l != "l1")`,
		)
	}
	if g.plan.capacity && g.c.Features.ConsumableCapacity {
		templates = append(templates,
			`device.driver == DRIVER && device.allowMultipleAllocations`,
			`device.driver == DRIVER && !device.allowMultipleAllocations`,
		)
	}
	return templates
}

func (g *generator) selectors(driver string) []resourceapi.DeviceSelector {
	var selectors []resourceapi.DeviceSelector
	for g.plan.selective && g.chance(0.18) && len(selectors) < 3 {
		selectors = append(selectors, selector(g.expression(driver)))
	}
	return selectors
}
