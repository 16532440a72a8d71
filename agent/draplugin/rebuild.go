// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package draplugin

import (
	"fmt"
	"os"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	cdifiles "github.com/dray-project/dray/agent/cdi"
	"github.com/dray-project/dray/agent/inventory"
)

// HoldsOfClaims returns the holds of one driver's DRA front. It computes them from all claims of
// the API server and from the CDI files in cdiDir. They replace a lost ledger:
//   - A claim with a CDI file is prepared, even if the API server no longer has it.
//   - An allocated claim without a file may be prepared. Its holds are assumed.
//
// Devices outside the inventory are ignored, since they are on other nodes.
func HoldsOfClaims(in *inventory.Inventory, driver, cdiDir string, claims []resourceapi.ResourceClaim) ([]inventory.Hold, error) {
	files, err := cdifiles.Open(cdiDir, driver)
	if err != nil {
		return nil, err
	}
	prepared, err := files.Keys()
	if err != nil {
		return nil, err
	}
	out := allocated(in, driver, claims)
	known := make(map[string]bool)
	for i := range claims {
		known[string(claims[i].UID)] = claims[i].Status.Allocation != nil
	}
	for i, hold := range out {
		_, err := os.Stat(files.Path(hold.User))
		out[i].Assumed = err != nil
	}
	for _, claim := range prepared {
		if known[claim] {
			continue
		}
		spec, err := cdi.ReadSpec(files.Path(claim), 0)
		if os.IsNotExist(err) {
			continue // unprepared meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("devices of claim %s, which is prepared: %w", claim, err)
		}
		for i := range spec.Devices {
			out = append(out, named(in, driver, claim, spec.Devices[i].Name)...)
		}
	}
	return out, nil
}

// allocated returns the holds of a driver according to the claims' allocations.
func allocated(in *inventory.Inventory, driver string, claims []resourceapi.ResourceClaim) []inventory.Hold {
	var out []inventory.Hold
	for i := range claims {
		if claims[i].Status.Allocation == nil {
			continue
		}
		for _, result := range claims[i].Status.Allocation.Devices.Results {
			id := inventory.ID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
			if device := in.Device(id); result.Driver == driver && device != nil && !ptr.Deref(result.AdminAccess, false) {
				out = append(out, inventory.HoldOf(device, inventory.FrontDRA, string(claims[i].UID)))
			}
		}
	}
	return out
}

// named returns the holds of devices to which the name of a claim's CDI device may refer. Mostly, the
// name does not contain the pool.
func named(in *inventory.Inventory, driver, claim, name string) []inventory.Hold {
	rest := strings.TrimPrefix(name, claim+"-")
	var out []inventory.Hold
	for i := range in.Devices {
		id := in.Devices[i].ID
		if id.Driver == driver && (isShareOf(rest, id.Device) || isShareOf(rest, withPool(id.Pool, id.Device))) {
			out = append(out, inventory.HoldOf(&in.Devices[i], inventory.FrontDRA, claim))
		}
	}
	return out
}

// isShareOf tells whether name is that of a device, or of a share of it.
func isShareOf(name, device string) bool {
	share, matches := strings.CutPrefix(name, device)
	return matches && (share == "" || len(share) == len("-")+lengthOfUID && share[0] == '-')
}

// lengthOfUID is the length of a share ID.
const lengthOfUID = 36

// DropUnallocated removes holds that are assumed for claims that are no longer allocated. Nobody
// unprepares a claim that was never prepared. claims must be all claims of the API server.
func DropUnallocated(in *inventory.Inventory, driver string, ledger *inventory.Ledger, claims []resourceapi.ResourceClaim) error {
	type use struct {
		device inventory.ID
		claim  string
	}
	still := make(map[use]bool)
	for _, hold := range allocated(in, driver, claims) {
		still[use{hold.Device, hold.User}] = true
	}
	return ledger.Update(func(holds []inventory.Hold) []inventory.Hold {
		out := holds[:0]
		for _, hold := range holds {
			if hold.Front != inventory.FrontDRA || !hold.Assumed || still[use{hold.Device, hold.User}] || in.Device(hold.Device) == nil {
				out = append(out, hold)
			}
		}
		return out
	})
}
