// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package devicetree

import (
	"testing"

	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/cdi"
	"github.com/dray-project/dray/agent/inventory"
)

// TestCDINames: whatever the names of driver, type, pool and device are, they give CDI devices that runtimes accept, and no two the same.
func TestCDINames(t *testing.T) {
	files, err := cdi.Open(t.TempDir(), "owner")
	if err != nil {
		t.Fatal(err)
	}
	in := &inventory.Inventory{}
	for _, driver := range []string{"gpu.example.com", "4g.example.com"} {
		for _, kind := range []string{"gpu", "1g.10gb"} {
			for _, pool := range []string{"n", "n/a", "n.a", "0"} {
				in.Devices = append(in.Devices, inventory.Device{
					ID: inventory.ID{Driver: driver, Pool: pool, Device: "0-" + kind[:1]}, Type: kind,
					Edits: cdispec.ContainerEdits{Env: []string{"A=1"}},
				})
			}
		}
	}
	seen := make(map[string]inventory.ID)
	for i := range in.Devices {
		device := &in.Devices[i]
		spec := cdiSpec(in, device)
		if err := files.Write("key", spec); err != nil {
			t.Errorf("%v, type %s: %v", device.ID, device.Type, err)
		}
		name := cdi.QualifiedNames(spec)[0]
		if other, taken := seen[name]; taken {
			t.Errorf("%v and %v are %s", device.ID, other, name)
		}
		seen[name] = device.ID
	}
	for _, name := range []string{"gpu.example.com/gpu=n:0-g", "dra_4g.example.com/type_1g.10gb=n_a:0-1"} {
		if _, found := seen[name]; !found {
			t.Errorf("there is no %s", name)
		}
	}
}
