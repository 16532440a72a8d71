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

	acquiring sync.Mutex // serializes looking at holds and adding to them

	mutex     sync.Mutex
	current   *inventory.Inventory
	allocated map[string]time.Time // when last, by user: as many as there are plugin devices
}

var (
	_ deviceplugin.Scanner   = &Scanner{}
	_ deviceplugin.Allocator = &Scanner{}
)

// NewScanner returns a Scanner that knows no devices until Update.
// Its Scan ends when ctx is done.
func NewScanner(ctx context.Context, driver string, ledger *inventory.Ledger) *Scanner {
	return &Scanner{ctx: ctx, driver: driver, ledger: ledger, wake: make(chan struct{}, 1), allocated: make(map[string]time.Time)}
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
		return errors.New("no devices are known")
	}
	devices := pluginDevices(in, s.driver)
	for _, pluginID := range pluginIDs {
		device := devices[pluginID]
		if device == nil {
			return fmt.Errorf("device %s of %s: not on this node", pluginID, s.driver)
		}
		if device.Health.Unhealthy {
			return fmt.Errorf("device %s of %s: unhealthy: %s", pluginID, s.driver, device.Health.Message)
		}
	}
	s.acquiring.Lock()
	defer s.acquiring.Unlock()
	before := s.users()
	var acquired []string
	for _, pluginID := range pluginIDs {
		user := s.user(pluginID)
		s.setRecent(user) // before there is a hold that SetInUse could give up
		err := s.acquireOne(in, user, devices[pluginID].ID)
		if err != nil {
			for _, user := range acquired {
				err = errors.Join(err, s.ledger.Release(inventory.FrontDevicePlugin, user))
			}
			return err
		}
		if !before[user] {
			acquired = append(acquired, user)
		}
	}
	return nil
}

func (s *Scanner) acquireOne(in *inventory.Inventory, user string, id inventory.ID) error {
	if exhausted(in, s.ledger.Holds())(id) {
		return fmt.Errorf("device %s: devices in use leave too little of its counters", id)
	}
	return s.ledger.Acquire(in, inventory.FrontDevicePlugin, user, []inventory.ID{id})
}

func (s *Scanner) setRecent(user string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.allocated[user] = time.Now()
}

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

// ConflictError says that kubelet has handed out a device that a claim has, too. Neither
// front hands it out again before one of them gives it back.
type ConflictError struct{ Plugin, Claim inventory.Hold }

func (err *ConflictError) Error() string {
	return fmt.Sprintf("device %s has two users: kubelet says that a container has %s, and claim %s has device %s",
		err.Plugin.Device, err.Plugin.User, err.Claim.User, err.Claim.Device)
}

// SetInUse adds the holds that kubelet says there are, and gives up those that are known to be
// free. A hold stays if nothing is known of it: if its resource has devices that cannot be
// told free, if kubelet allocated the device after the report was begun or in the last
// minute, or if no resource is known for it because the inventory does not have its device
// at the moment. The error has a *ConflictError for each device that a claim has, too.
func (s *Scanner) SetInUse(report Report) error {
	in := s.latest()
	if in == nil {
		return nil
	}
	devices := pluginDevices(in, s.driver)
	var used []inventory.Hold
	for pluginID, device := range devices {
		if slices.Contains(report.InUse[s.resource(device)], pluginID) {
			used = append(used, inventory.Hold{Device: device.ID, Front: inventory.FrontDevicePlugin, User: s.user(pluginID)})
		}
	}
	free := func(hold inventory.Hold) bool {
		if hold.Front != inventory.FrontDevicePlugin || hold.Device.Driver != s.driver || report.Free == nil || s.isRecent(hold.User, report.Asked) {
			return false
		}
		device := devices[strings.TrimPrefix(hold.User, s.driver+"/")]
		return device != nil && report.Free(s.resource(device))
	}
	err := s.ledger.Update(func(holds []inventory.Hold) []inventory.Hold {
		return append(used, slices.DeleteFunc(holds, free)...)
	})
	return errors.Join(err, s.conflicts())
}

// conflicts are the devices of plugins that claims have, too.
func (s *Scanner) conflicts() error {
	var conflicts []error
	holds := s.ledger.Holds()
	for _, hold := range holds {
		if hold.Front != inventory.FrontDevicePlugin || hold.Device.Driver != s.driver {
			continue
		}
		for _, other := range holds {
			if other.Front == inventory.FrontDRA && other.Device == hold.Device {
				conflicts = append(conflicts, &ConflictError{Plugin: hold, Claim: other})
			}
		}
	}
	return errors.Join(conflicts...)
}

// resource is the name under which kubelet knows a type of devices.
func (s *Scanner) resource(device *inventory.Device) string { return s.driver + "/" + device.Type }

// settling is how long after Allocate neither kubelet nor the API server may know of the pod:
// that of a static pod comes to the API server only after kubelet admitted it.
const settling = time.Minute

// isRecent tells whether a user got its device just now, or after asked.
func (s *Scanner) isRecent(user string, asked time.Time) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	allocated, known := s.allocated[user]
	return known && (time.Since(allocated) <= settling || !allocated.Before(asked))
}

func (s *Scanner) latest() *inventory.Inventory {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.current
}

// user is who has a plugin device: kubelet tells no more than its ID.
func (s *Scanner) user(pluginID string) string { return s.driver + "/" + pluginID }

// users are those who hold devices through the device plugin.
func (s *Scanner) users() map[string]bool {
	users := make(map[string]bool)
	for _, hold := range s.ledger.Holds() {
		users[hold.User] = users[hold.User] || hold.Front == inventory.FrontDevicePlugin
	}
	return users
}
