// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package alloctest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func parseClass(b block) (*resourceapi.DeviceClass, error) {
	w := b.words()
	w.next()
	name, err := w.operand("class")
	if err != nil {
		return nil, err
	}
	class := &resourceapi.DeviceClass{}
	class.Name = name
	err = b.clauses(w, func(clause string, w *words) error { return classClause(&class.Spec, clause, w) })
	return class, within("class "+name, err)
}

func classClause(spec *resourceapi.DeviceClassSpec, clause string, w *words) error {
	switch clause {
	case "where":
		selector, err := parseSelector(w)
		spec.Selectors = append(spec.Selectors, selector)
		return within(clause, err)
	case "config":
		requests, config, err := parseConfig(w)
		if err == nil && requests != nil {
			err = fmt.Errorf("config: a class has no requests")
		}
		spec.Config = append(spec.Config, resourceapi.DeviceClassConfiguration{DeviceConfiguration: config})
		return err
	}
	return fmt.Errorf("unknown clause %q", clause)
}

func writeClass(class *resourceapi.DeviceClass) []string {
	lines := writeSelectors(class.Spec.Selectors)
	for _, config := range class.Spec.Config {
		lines = append(lines, "config"+writeConfig(nil, config.DeviceConfiguration))
	}
	header := "class " + quote(class.Name)
	if len(lines) == 1 {
		return []string{header + " " + lines[0]}
	}
	return append([]string{header}, indented(lines)...)
}

// parseConfig reads: driver [requests=a,b] {json}
func parseConfig(w *words) (requests []string, config resourceapi.DeviceConfiguration, err error) {
	driver, err := w.operand("config")
	if err != nil {
		return nil, config, err
	}
	if list, ok := strings.CutPrefix(w.peek(), "requests="); ok {
		w.next()
		if requests, err = commaList[string](list); err != nil {
			return nil, config, within("config: requests", err)
		}
	}
	var parameters bytes.Buffer
	if err := json.Compact(&parameters, []byte(w.rest())); err != nil {
		return nil, config, within("config: parameters", err)
	}
	config.Opaque = &resourceapi.OpaqueDeviceConfiguration{
		Driver:     driver,
		Parameters: runtime.RawExtension{Raw: parameters.Bytes()},
	}
	return requests, config, nil
}

func writeConfig(requests []string, config resourceapi.DeviceConfiguration) string {
	if config.Opaque == nil {
		return ""
	}
	line := " " + quote(config.Opaque.Driver)
	if len(requests) > 0 {
		line += " requests=" + quoteAll(requests)
	}
	var parameters bytes.Buffer
	if json.Compact(&parameters, config.Opaque.Parameters.Raw) != nil {
		return line
	}
	return line + " " + parameters.String()
}
