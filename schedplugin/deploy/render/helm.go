// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// helm does what `helm template dray CHART --namespace kube-system --values VALUES` does,
// strictly: a value that a template uses must be there.
func helm(folder, valuesPath string) (string, error) {
	chart, err := loader.LoadDir(folder)
	if err != nil {
		return "", fmt.Errorf("chart %s: %w", folder, err)
	}
	values, err := readValues(valuesPath)
	if err != nil {
		return "", fmt.Errorf("values %s: %w", valuesPath, err)
	}
	release := common.ReleaseOptions{Name: "dray", Namespace: "kube-system", IsInstall: true, Revision: 1}
	scope, err := util.ToRenderValues(chart, values, release, common.DefaultCapabilities)
	if err != nil {
		return "", fmt.Errorf("chart %s: values: %w", folder, err)
	}
	files, err := engine.Engine{Strict: true}.Render(chart, scope)
	if err != nil {
		return "", fmt.Errorf("chart %s: render: %w", folder, err)
	}
	return join(files), nil
}

func readValues(path string) (map[string]any, error) {
	values := make(map[string]any)
	if path == "" {
		return values, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return values, yaml.UnmarshalStrict(text, &values)
}

// join puts the documents of all files together. Those of templates that only define
// something are empty.
func join(files map[string]string) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		text.WriteString(strings.TrimSpace(files[name]) + "\n")
	}
	return text.String()
}
