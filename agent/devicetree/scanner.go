// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package devicetree

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/dray-project/dray/agent/deviceplugin"
	"github.com/dray-project/dray/agent/inventory"
)

// Scanner serves one driver's devices through a deviceplugin.Manager
// whose namespace is the driver's name, and keeps the ledger: what kubelet
// allocates is acquired, and what a claim holds is neither offered nor handed
// out.
//
// Kubelet does not tell device plugins that a container is gone. A hold stays
// until SetInUse is told that the device is free. Meanwhile kubelet may give the
// device to another container, which takes over the hold.
type Scanner struct {
	ctx    context.Context // ends Scan
	driver string
	ledger *inventory.Ledger
	wake   chan struct{} // has room for one

	mutex   sync.Mutex
	current *inventory.Inventory
	seen    map[string]sighting // by user: as many as there are plugin devices

	settling time.Duration // the constant, but in tests
}

// sighting is when this process saw a hold for the first time after its device was allocated.
type sighting struct {
	serial uint64 // of the hold
	at     time.Time
}

var (
	_ deviceplugin.Scanner   = &Scanner{}
	_ deviceplugin.Allocator = &Scanner{}
)

// NewScanner returns a Scanner that knows no devices until Update.
// Its Scan ends when ctx is done.
func NewScanner(ctx context.Context, driver string, ledger *inventory.Ledger) *Scanner {
	return &Scanner{ctx: ctx, driver: driver, ledger: ledger, wake: make(chan struct{}, 1), seen: make(map[string]sighting), settling: settling}
}

// Update replaces the inventory. It does not wait, and may be a Source's report.
func (s *Scanner) Update(in *inventory.Inventory) {
	s.mutex.Lock()
	s.current = in
	s.mutex.Unlock()
	s.Refresh()
}

// Refresh has the ledger looked at again. It does not wait, and may be called
// by the ledger's OnChange.
func (s *Scanner) Refresh() {
	select {
	case s.wake <- struct{}{}:
	default: // a look that is still to come will do
	}
}

// Scan notifies of the devices after each change, until the context of
// NewScanner is done.
func (s *Scanner) Scan(notifier deviceplugin.Notifier) error {
	for {
		select {
		case <-s.ctx.Done():
			return nil
		case <-s.wake:
		}
		if in := s.latest(); in != nil {
			notifier.Notify(Of(in, s.driver, s.unavailable(in)))
		}
	}
}

// unavailable tells which devices kubelet must not hand out, though they are
// healthy and it may have nobody who uses them.
func (s *Scanner) unavailable(in *inventory.Inventory) func(inventory.ID) bool {
	claimed, exhausted := s.ledger.UsedBy(in, inventory.FrontDRA), exhausted(in, s.ledger.Holds())
	return func(id inventory.ID) bool { return claimed(id) || exhausted(id) }
}

// Allocate acquires the devices, all of them or none, and leaves the answer to
// the Manager. The error says who has a device that is in use.
func (s *Scanner) Allocate(request *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	var pluginIDs []string
	for _, container := range request.GetContainerRequests() {
		pluginIDs = append(pluginIDs, container.GetDevicesIds()...)
	}
	if err := s.acquire(pluginIDs); err != nil {
		return nil, err
	}
	return nil, &deviceplugin.UseDefaultMethodError{}
}

func (s *Scanner) acquire(pluginIDs []string) error {
	in := s.latest()
	if in == nil {
		return errNoDevices
	}
	devices := pluginDevices(in, s.driver)
	var wanted []inventory.Hold
	for _, pluginID := range pluginIDs {
		device := devices[pluginID]
		if device == nil {
			return fmt.Errorf("device %s of %s: not on this node", pluginID, s.driver)
		}
		if device.Health.Unhealthy {
			return fmt.Errorf("device %s of %s: unhealthy: %s", pluginID, s.driver, device.Health.Message)
		}
		wanted = append(wanted, inventory.Hold{Device: device.ID, Front: inventory.FrontDevicePlugin, User: s.user(pluginID)})
	}
	return s.ledger.AcquireAll(in, wanted, func(holds []inventory.Hold, device inventory.ID) error {
		if exhausted(in, holds)(device) {
			return fmt.Errorf("device %s: devices in use leave too little of its counters", device)
		}
		return nil
	})
}

// errNoDevices is what there is before the first Update.
var errNoDevices = errors.New("no devices are known")

// Report is what is known of the plugin devices in use.
type Report struct {
	// Asked is a moment before any of it was found out.
	Asked time.Time
	// InUse are the IDs of plugin devices that kubelet says containers have, by resource;
	// other drivers' are ignored.
	InUse map[string][]string
	// Free tells whether those devices of a resource are free that InUse leaves out. That
	// kubelet leaves a device out does not say so. Nil: it is not known of any.
	Free func(resource string) bool
}

// SetInUse adds the holds that kubelet says there are, and gives up those that are known to be
// free. A hold stays if nothing is known of it: if its resource has devices that cannot be
// told free, if kubelet allocated the device after the report was begun or in the last
// minute, or if no resource is known for it because the inventory does not have its device
// at the moment. A Scanner that is new waits for a minute, too: it does not know when devices were
// allocated.
func (s *Scanner) SetInUse(report Report) error {
	in := s.latest()
	if in == nil {
		return nil
	}
	devices := pluginDevices(in, s.driver)
	return s.ledger.Update(func(holds []inventory.Hold) []inventory.Hold {
		recent := s.recent(holds, report.Asked)
		free := func(hold inventory.Hold) bool {
			if !s.ours(hold) || report.Free == nil || recent(hold) {
				return false
			}
			device := devices[strings.TrimPrefix(hold.User, s.driver+"/")]
			return device != nil && report.Free(s.resource(device))
		}
		return append(slices.DeleteFunc(holds, free), s.reported(devices, report)...)
	})
}

// Silent tells that kubelet does not answer. It ends no pods in that time: all allocations are taken for new
// ones at the next SetInUse.
func (s *Scanner) Silent() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	clear(s.seen)
}

// Rebuild makes the holds of the device plugin anew after the ledger was lost. Where kubelet
// does not say which devices of a resource containers have, all of them may be in use,
// except those that a claim is known to have.
func (s *Scanner) Rebuild(report Report) error {
	in := s.latest()
	if in == nil {
		return errNoDevices
	}
	claimed := make(map[inventory.ID]bool)
	for _, hold := range s.ledger.Holds() {
		claimed[hold.Device] = claimed[hold.Device] || hold.Front == inventory.FrontDRA && !hold.Assumed
	}
	devices := pluginDevices(in, s.driver)
	holds := s.reported(devices, report)
	for pluginID, device := range devices {
		if !claimed[device.ID] && (report.Free == nil || !report.Free(s.resource(device))) {
			hold := inventory.HoldOf(device, inventory.FrontDevicePlugin, s.user(pluginID))
			hold.Assumed = true
			holds = append(holds, hold)
		}
	}
	return s.ledger.Rebuild(inventory.FrontDevicePlugin, holds)
}

// reported are the holds that kubelet says there are.
func (s *Scanner) reported(devices map[string]*inventory.Device, report Report) []inventory.Hold {
	var out []inventory.Hold
	for pluginID, device := range devices {
		if slices.Contains(report.InUse[s.resource(device)], pluginID) {
			out = append(out, inventory.HoldOf(device, inventory.FrontDevicePlugin, s.user(pluginID)))
		}
	}
	return out
}

// ours tells whether a hold is one of this device plugin.
func (s *Scanner) ours(hold inventory.Hold) bool {
	return hold.Front == inventory.FrontDevicePlugin && hold.Device.Driver == s.driver
}

// resource is the name under which kubelet knows a type of devices.
func (s *Scanner) resource(device *inventory.Device) string { return s.driver + "/" + device.Type }

// settling is how long after Allocate neither kubelet nor the API server may know of the pod:
// that of a static pod comes to the API server only after kubelet admitted it.
const settling = time.Minute

// recent returns a function that tells whether a device was allocated just now, or after asked. The
// times are those at which this process saw that: another one may have allocated it, and the
// clock may have been set since.
func (s *Scanner) recent(holds []inventory.Hold, asked time.Time) func(inventory.Hold) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	before := s.seen
	s.seen = make(map[string]sighting, len(holds))
	now := time.Now()
	for _, hold := range holds {
		if !s.ours(hold) {
			continue
		}
		last, known := before[hold.User]
		if !known || last.serial != hold.Serial {
			last = sighting{hold.Serial, now}
		}
		s.seen[hold.User] = last
	}
	seen := s.seen
	return func(hold inventory.Hold) bool {
		at := seen[hold.User].at
		return now.Sub(at) <= s.settling || !at.Before(asked)
	}
}

func (s *Scanner) latest() *inventory.Inventory {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.current
}

// user is who has a plugin device: kubelet tells no more than its ID.
func (s *Scanner) user(pluginID string) string { return s.driver + "/" + pluginID }
