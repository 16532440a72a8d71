// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomize does what `kubectl kustomize` does.
func kustomize(folder string) (string, error) {
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return "", fmt.Errorf("kustomize %s: %w", folder, err)
	}
	text, err := objects.AsYaml()
	if err != nil {
		return "", fmt.Errorf("kustomize %s: encode: %w", folder, err)
	}
	return string(text), nil
}
