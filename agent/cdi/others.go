// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// Other is a CDI file that is not the owner's.
type Other struct {
	Path string
	// Devices are the qualified names of all devices that it defines.
	Devices []string
}

// Others are the files in the directory which are not the owner's, by name. A runtime
// resolves a device that two files define in neither. Files that are no valid CDI are left
// out: runtimes ignore them.
func (f *Files) Others() ([]Other, error) {
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list CDI files: %w", err)
	}
	var others []Other
	for _, entry := range entries {
		if _, ours := f.keyOf(entry.Name()); ours {
			continue
		}
		path := filepath.Join(f.dir, entry.Name())
		if extension := filepath.Ext(path); extension != ".json" && extension != ".yaml" {
			continue
		}
		if spec, err := cdi.ReadSpec(path, 0); err == nil {
			others = append(others, Other{path, QualifiedNames(spec.Spec)})
		}
	}
	return others, nil
}
