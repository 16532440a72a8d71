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

// Scanner serves one driver's devices through a deviceplugin.Manager whose namespace is the
// driver's name, and updates the ledger. It acquires devices that kubelet allocates. It reports
// devices that a claim holds as unhealthy, and refuses to allocate them.
//
// Kubelet does not tell device plugins when a container has ended. A hold remains until SetInUse
// gets a report that the device is free. If kubelet gives the device to another container before,
// that container takes over the hold.
type Scanner struct {
	ctx    context.Context // Scan ends when it is done
	driver string
	ledger *inventory.Ledger
	wake   chan struct{} // buffered channel of size 1

	mutex   sync.Mutex
	current *inventory.Inventory
	seen    map[string]sighting // by user: one entry per plugin device

	settling time.Duration // the constant, except in tests
}

// sighting says when this process first saw a hold after its device was allocated.
type sighting struct {
	serial uint64 // serial number of the hold
	at     time.Time
}

var (
	_ deviceplugin.Scanner   = &Scanner{}
	_ deviceplugin.Allocator = &Scanner{}
)

// NewScanner returns a Scanner without devices. Its Scan ends when ctx is done.
func NewScanner(ctx context.Context, driver string, ledger *inventory.Ledger) *Scanner {
	return &Scanner{ctx: ctx, driver: driver, ledger: ledger, wake: make(chan struct{}, 1), seen: make(map[string]sighting), settling: settling}
}

// Update replaces the inventory. It does not block, and can be passed to a Source as report.
func (s *Scanner) Update(in *inventory.Inventory) {
	s.mutex.Lock()
	s.current = in
	s.mutex.Unlock()
	s.Refresh()
}

// Refresh makes Scan read the ledger again. It does not block, and may be called by the ledger's
// OnChange.
func (s *Scanner) Refresh() {
	select {
	case s.wake <- struct{}{}:
	default: // Scan has been triggered already
	}
}

// Scan calls Notify after each change, until the context of NewScanner is done.
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

// unavailable returns a function that tells which healthy devices kubelet must not allocate.
func (s *Scanner) unavailable(in *inventory.Inventory) func(inventory.ID) bool {
	claimed, exhausted := s.ledger.UsedBy(in, inventory.FrontDRA), exhausted(in, s.ledger.Holds())
	return func(id inventory.ID) bool { return claimed(id) || exhausted(id) }
}

// Allocate acquires all of the devices or none, and leaves the response to the Manager. If a device
// is in use, the error names its user.
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

// errNoDevices is the error before the first Update.
var errNoDevices = errors.New("no devices are known")

// Report says which plugin devices are in use.
type Report struct {
	// Asked is a time before kubelet was asked.
	Asked time.Time
	// InUse are the IDs of plugin devices that containers have according to kubelet, by resource.
	// Resources of other drivers are ignored.
	InUse map[string][]string
	// Free tells whether all devices of a resource that are not in InUse are free. Kubelet's answer
	// alone does not imply that. nil: no device is known to be free.
	Free func(resource string) bool
}

// SetInUse adds holds that kubelet reports, and removes those that are known to be free. A hold
// remains if Free is false for its resource, or if the inventory does not have its device. It also
// remains if kubelet allocated the device in the last minute, or after report.Asked. A new Scanner
// waits for a minute, too, because it does not know when devices were allocated.
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

// Silent says that kubelet did not answer. No pods end in that time, so all allocations count as
// new at the next SetInUse.
func (s *Scanner) Silent() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	clear(s.seen)
}

// Rebuild fills a lost ledger with the holds of the device plugin. If it is unknown which devices
// of a resource are in use, all count as in use, except those that a claim is known to hold.
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

// reported returns the holds that kubelet reports.
func (s *Scanner) reported(devices map[string]*inventory.Device, report Report) []inventory.Hold {
	var out []inventory.Hold
	for pluginID, device := range devices {
		if slices.Contains(report.InUse[s.resource(device)], pluginID) {
			out = append(out, inventory.HoldOf(device, inventory.FrontDevicePlugin, s.user(pluginID)))
		}
	}
	return out
}

// ours tells whether a hold belongs to this device plugin.
func (s *Scanner) ours(hold inventory.Hold) bool {
	return hold.Front == inventory.FrontDevicePlugin && hold.Device.Driver == s.driver
}

// resource returns the name of a device's resource.
func (s *Scanner) resource(device *inventory.Device) string { return s.driver + "/" + device.Type }

// settling is how long after Allocate kubelet and the API server may not report the pod yet. A
// static pod, for instance, appears in the API server only after kubelet has admitted it.
const settling = time.Minute

// recent returns a function that tells whether a device was allocated less than settling ago, or
// after asked. It uses the times at which this process saw the allocations, because another process
// may have made them, or the clock may have been set.
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

// user returns the user of a plugin device in the ledger. Kubelet identifies a user only by the
// plugin device's ID.
func (s *Scanner) user(pluginID string) string { return s.driver + "/" + pluginID }
