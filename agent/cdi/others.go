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

// Other is a CDI file of another owner.
type Other struct {
	Path string
	// Devices are the qualified names of all devices in the file.
	Devices []string
}

// Others returns the files of other owners in the directory, sorted by name. If two files define a
// device, a runtime can resolve it in neither. Invalid files are left out, since runtimes ignore
// them.
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
