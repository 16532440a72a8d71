// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomize reads the result of a folder's kustomization, as kubectl does.
func (r *reader) kustomize(folder string) error {
	if _, err := os.Stat(folder); err != nil {
		return named(folder, err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return fmt.Errorf("kustomize %s: %w", folder, err)
	}
	content, err := resources.AsYaml()
	if err != nil {
		return fmt.Errorf("kustomize %s: %w", folder, err)
	}
	r.readFile("kustomize "+folder, content, false)
	return nil
}

// isForOthers reports whether a document is not for an API server, such as a chart's values or a
// kustomization without a kind.
func isForOthers(raw []byte) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return false
	}
	return members["kind"] == nil && members["metadata"] == nil
}

// otherUse returns how a file without objects is used.
func otherUse(file string) string {
	if slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(file)) {
		return " (-k builds the kustomization)"
	}
	return ""
}
