// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package benchmarks

import (
	"embed"
	"fmt"
	"path"

	"github.com/dray-project/dray/alloctest"
)

//go:embed testdata/worst/*.txt
var worstFiles embed.FS

// Constructed returns the scenarios of testdata/worst, which were constructed to be hard.
func Constructed() ([]alloctest.Scenario, error) {
	const folder = "testdata/worst"
	files, err := worstFiles.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("constructed cases: %w", err)
	}
	var all []alloctest.Scenario
	for _, file := range files {
		text, err := worstFiles.ReadFile(path.Join(folder, file.Name()))
		if err != nil {
			return nil, fmt.Errorf("constructed case: %w", err)
		}
		scenarios, err := alloctest.Parse(file.Name(), string(text))
		if err != nil {
			return nil, fmt.Errorf("constructed case: %w", err)
		}
		all = append(all, scenarios...)
	}
	return all, nil
}
