// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package draplugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"google.golang.org/grpc"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/dray-project/dray/agent/cdi"
	"github.com/dray-project/dray/agent/inventory"
)

// cdiClass is the class of CDI devices. There is one CDI device for each device of each claim.
const cdiClass = "claim"

// plugin handles kubelet's requests.
type plugin struct{ *Driver }

// PrepareResourceClaims prepares the devices of claims for containers. The result has one entry per
// claim, and an error of one claim does not affect the others. A claim that is already prepared
// gets the same result again, even if one of its devices has disappeared.
func (p plugin) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	p.preparing.Lock()
	defer p.preparing.Unlock()
	out := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, claim := range claims {
		devices, err := p.prepare(claim)
		if err != nil {
			err = fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, err)
			klog.FromContext(ctx).Error(err, "Preparing failed")
		}
		out[claim.UID] = kubeletplugin.PrepareResult{Err: err, Devices: devices}
		if err := p.reports.set(claim, p.ours(claim), p.resultsOf(claim), err); err != nil {
			p.options.OnError(ctx, err, "noting that the status of a claim is to be written")
		}
	}
	return out, nil
}

func (d *Driver) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	results := d.resultsOf(claim)
	if len(results) == 0 {
		return nil, nil
	}
	devices := make([]kubeletplugin.Device, len(results))
	for i, result := range results {
		devices[i] = d.answer(claim.UID, result, results)
	}
	if _, err := os.Stat(d.files.Path(string(claim.UID))); err == nil {
		held, err := d.holds(claim.UID, results)
		if err != nil {
			return nil, err
		}
		if held {
			return devices, d.refresh(claim.UID, results)
		}
	}
	in, _, _ := d.current()
	if in == nil {
		return nil, errNoInventory
	}
	spec, err := d.spec(in, claim.UID, results)
	if err != nil {
		return nil, err
	}
	if err := d.options.Ledger.Acquire(in, inventory.FrontDRA, string(claim.UID), d.exclusive(results)); err != nil {
		return nil, err
	}
	if err := d.files.Write(string(claim.UID), spec); err != nil {
		return nil, err // the ledger holds the devices until kubelet gives up and unprepares the claim
	}
	return devices, nil
}

// refresh brings the CDI file of a prepared claim up to date. The node may have been rebooted since,
// so that device nodes have other numbers, or the file is damaged. If a device is not there, the
// file stays as it is.
func (d *Driver) refresh(claim types.UID, results []resourceapi.DeviceRequestAllocationResult) error {
	in, _, _ := d.current()
	if in == nil {
		return nil
	}
	spec, err := d.spec(in, claim, results)
	if err != nil {
		return nil //nolint:nilerr // what the claim got stays
	}
	return d.files.Write(string(claim), spec)
}

// resultsOf returns the allocation results of a claim for this driver.
func (d *Driver) resultsOf(claim *resourceapi.ResourceClaim) []resourceapi.DeviceRequestAllocationResult {
	if claim.Status.Allocation == nil {
		return nil
	}
	var out []resourceapi.DeviceRequestAllocationResult
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver == d.options.DriverName {
			out = append(out, result)
		}
	}
	return out
}

// exclusive returns the devices that the claim holds exclusively. Devices with admin access are
// left out, since other users do not matter for them.
func (d *Driver) exclusive(results []resourceapi.DeviceRequestAllocationResult) []inventory.ID {
	var out []inventory.ID
	for _, result := range results {
		if !ptr.Deref(result.AdminAccess, false) {
			out = append(out, d.id(result))
		}
	}
	return out
}

func (d *Driver) id(result resourceapi.DeviceRequestAllocationResult) inventory.ID {
	return inventory.ID{Driver: d.options.DriverName, Pool: result.Pool, Device: result.Device}
}

// holds tells whether the claim holds all its devices. It is an error if a container also has one
// of them through the device plugin. Nobody gets such a device before the conflict is resolved.
func (d *Driver) holds(claim types.UID, results []resourceapi.DeviceRequestAllocationResult) (bool, error) {
	if err := d.options.Ledger.Reread(); err != nil {
		return false, err
	}
	held := make(map[inventory.ID]bool)
	plugin := make(map[inventory.ID]inventory.Hold)
	for _, hold := range d.options.Ledger.Holds() {
		switch {
		case hold.Front == inventory.FrontDevicePlugin:
			plugin[hold.Device] = hold
		case hold.User == string(claim) && !hold.Assumed:
			held[hold.Device] = true
		}
	}
	for _, id := range d.exclusive(results) {
		if hold, conflict := plugin[id]; conflict {
			return false, &inventory.InUseError{Device: id, Hold: hold}
		}
		if !held[id] {
			return false, nil
		}
	}
	return true, nil
}

// answer returns what kubelet is told of one of the results of a claim.
func (d *Driver) answer(claim types.UID, result resourceapi.DeviceRequestAllocationResult, all []resourceapi.DeviceRequestAllocationResult) kubeletplugin.Device {
	return kubeletplugin.Device{
		Requests:     []string{result.Request},
		PoolName:     result.Pool,
		DeviceName:   result.Device,
		ShareID:      result.ShareID,
		CDIDeviceIDs: []string{cdi.Kind(d.options.DriverName, cdiClass) + "=" + cdiName(claim, result, all)},
	}
}

// cdiName returns a name that no other claim uses, because runtimes may cache CDI files. It has the
// name of the pool if the claim got devices of the same name from several pools.
func cdiName(claim types.UID, result resourceapi.DeviceRequestAllocationResult, all []resourceapi.DeviceRequestAllocationResult) string {
	name := string(claim) + "-" + result.Device
	if slices.ContainsFunc(all, func(other resourceapi.DeviceRequestAllocationResult) bool {
		return other.Device == result.Device && other.Pool != result.Pool
	}) {
		name = string(claim) + "-" + withPool(result.Pool, result.Device)
	}
	if result.ShareID != nil {
		name += "-" + string(*result.ShareID)
	}
	return name
}

// withPool returns the name of a device with that of its pool, as CDI permits.
func withPool(pool, device string) string { return strings.ReplaceAll(pool, "/", "_") + ":" + device }

// spec returns the CDI spec for containers with the claim. A device that several requests of a
// claim got is one CDI device.
func (d *Driver) spec(in *inventory.Inventory, claim types.UID, results []resourceapi.DeviceRequestAllocationResult) (*cdispec.Spec, error) {
	spec := &cdispec.Spec{Kind: cdi.Kind(d.options.DriverName, cdiClass)}
	seen := make(map[string]bool)
	for _, result := range results {
		device := in.Device(d.id(result))
		if device == nil {
			return nil, fmt.Errorf("device %s: not on this node", d.id(result))
		}
		if name := cdiName(claim, result, results); !seen[name] {
			seen[name] = true
			spec.Devices = append(spec.Devices, cdispec.Device{Name: name, ContainerEdits: withName(device)})
		}
	}
	return spec, nil
}

// withName returns the container edits of a device. If it has none, they are one environment
// variable, because a CDI device must have edits.
func withName(device *inventory.Device) cdispec.ContainerEdits {
	edits := device.Edits
	if len(edits.Env)+len(edits.DeviceNodes)+len(edits.NetDevices)+len(edits.Hooks)+len(edits.Mounts)+len(edits.AdditionalGIDs) == 0 && edits.IntelRdt == nil {
		edits.Env = []string{"DRA_DEVICE=" + device.ID.String()}
	}
	return edits
}

// UnprepareResourceClaims undoes PrepareResourceClaims of this or an earlier process. It is no
// error if the claim is not prepared.
func (p plugin) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	p.preparing.Lock()
	defer p.preparing.Unlock()
	out := make(map[types.UID]error, len(claims))
	for _, claim := range claims {
		// release the devices only after no CDI file names them
		err := p.files.Remove(string(claim.UID))
		if err == nil {
			err = p.options.Ledger.Release(inventory.FrontDRA, string(claim.UID))
		}
		if err != nil {
			err = fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, err)
		} else {
			p.reports.remove(claim.UID)
		}
		out[claim.UID] = err
	}
	return out, nil
}

// HandleError implements kubeletplugin.DRAPlugin. A server that is stopped before it serves returns
// ErrServerStopped. That is no failure.
func (p plugin) HandleError(ctx context.Context, err error, msg string) {
	if errors.Is(err, grpc.ErrServerStopped) {
		return
	}
	p.options.OnError(ctx, err, msg)
}
