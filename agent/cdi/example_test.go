// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi_test

import (
	"fmt"
	"os"
	"path/filepath"

	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/cdi"
)

func ExampleFiles_Write() {
	dir, err := os.MkdirTemp("", "cdi")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()

	files, err := cdi.Open(dir, "gpu.example.com")
	if err != nil {
		fmt.Println(err)
		return
	}
	spec := &cdispec.Spec{
		Kind: "gpu.example.com/claim",
		Devices: []cdispec.Device{{
			Name:           "0f41",
			ContainerEdits: cdispec.ContainerEdits{Env: []string{"GPU=0"}},
		}},
	}
	if err := files.Write("0f41", spec); err != nil {
		fmt.Println(err)
		return
	}
	content, err := os.ReadFile(files.Path("0f41"))
	fmt.Println(filepath.Base(files.Path("0f41")))
	fmt.Println(cdi.QualifiedNames(spec))
	fmt.Println(string(content), err)
	// Output:
	// gpu.example.com_0f41.json
	// [gpu.example.com/claim=0f41]
	// {"cdiVersion":"0.5.0","kind":"gpu.example.com/claim","devices":[{"name":"0f41","containerEdits":{"env":["GPU=0"]}}],"containerEdits":{}} <nil>
}
