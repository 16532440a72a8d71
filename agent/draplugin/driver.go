// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package draplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/cdi"
	"github.com/dray-project/dray/agent/internal/checkpoint"
	"github.com/dray-project/dray/agent/internal/sockets"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/resourceslice"
)

// Options configure Start. All are required unless they say otherwise.
type Options struct {
	DriverName string
	NodeName   string
	KubeClient kubernetes.Interface
	// Ledger records which devices are in use. The device plugin shares it.
	Ledger *inventory.Ledger

	// RegistrarDir is kubelet's plugin registration directory. The default is kubelet's default.
	RegistrarDir string
	// PluginDataDir has the plugin's socket. The default is the driver's directory below kubelet's
	// plugin directory.
	PluginDataDir string
	// CDIDir is where CDI files are written.
	CDIDir string
	// Instance is the UID of the driver's pod. If set, it is part of the names of sockets. A new
	// instance may then start while the old one runs, as in a rolling update of a DaemonSet with
	// maxSurge. Kubelet calls the instance that registered last. The old one publishes until it
	// ends.
	Instance types.UID

	// AwaitKubelet is how long the first publication waits for kubelet to register the driver. A pod
	// that kubelet gets before fails to start, and kubelet tries again only after a minute or more.
	AwaitKubelet time.Duration
	// RepairDelay is how long to wait before a ResourceSlice that another writer changed is
	// repaired. The default is resourceslice.DefaultSyncDelay.
	RepairDelay time.Duration
	// OnError gets errors of background work, as ErrorHandler of resourceslice.Options does. The
	// default logs them.
	OnError func(ctx context.Context, err error, msg string)
}

func (o Options) withDefaults() Options {
	if o.RegistrarDir == "" {
		o.RegistrarDir = kubeletplugin.KubeletRegistryDir
	}
	if o.PluginDataDir == "" {
		o.PluginDataDir = filepath.Join(kubeletplugin.KubeletPluginsDir, o.DriverName)
	}
	if o.RepairDelay == 0 {
		o.RepairDelay = resourceslice.DefaultSyncDelay
	}
	if o.OnError == nil {
		o.OnError = func(ctx context.Context, err error, msg string) {
			klog.FromContext(ctx).Error(err, "In the background: "+msg)
		}
	}
	return o
}

// checkSockets returns an error if one of the two sockets cannot be made. It is called before
// either is made.
func (o Options) checkSockets() error {
	registrar, plugin := o.DriverName+"-reg.sock", "dra.sock" // named by kubeletplugin
	if o.Instance != "" {
		registrar = kubeletplugin.RollingUpdateRegistrarSocketFile(o.RegistrarDir, o.DriverName, o.Instance)
		plugin = "dra-" + string(o.Instance) + ".sock"
	}
	for _, path := range []string{filepath.Join(o.RegistrarDir, registrar), filepath.Join(o.PluginDataDir, plugin)} {
		if err := sockets.CheckPath(path); err != nil {
			return err
		}
		if sockets.Answers(path) {
			return &sockets.InUseError{Path: path}
		}
	}
	return nil
}

// lengthOfInstance is the length of a pod's UID.
const lengthOfInstance = 36

// removeStale removes sockets of other instances that were killed. Otherwise kubelet would keep
// trying to connect to them.
func (o Options) removeStale() error {
	if o.Instance == "" {
		return nil
	}
	for dir, around := range map[string][2]string{o.RegistrarDir: {o.DriverName + "-", "-reg.sock"}, o.PluginDataDir: {"dra-", ".sock"}} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			instance, ours := strings.CutPrefix(entry.Name(), around[0])
			instance, named := strings.CutSuffix(instance, around[1])
			path := filepath.Join(dir, entry.Name())
			if !ours || !named || len(instance) != lengthOfInstance || entry.Type() != fs.ModeSocket || sockets.Answers(path) {
				continue
			}
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove the socket of an instance that was killed: %w", err)
			}
		}
	}
	return nil
}

// Driver is a DRA driver on one node. Methods may be called concurrently.
type Driver struct {
	options Options
	files   *cdi.Files
	sockets []*sockets.File
	reports *reports
	kubelet *kubeletplugin.Helper
	// registrations are those of this process.
	registrations *registrations
	cancel        context.CancelFunc
	background    sync.WaitGroup
	preparing     sync.Mutex // held while CDI files and the ledger are changed together

	mutex     sync.Mutex
	inventory *inventory.Inventory // nil before the first Update
	lost      error                // why the source ended, or nil
	changed   chan struct{}        // closed when inventory, lost or the ledger changes
	slices    *resourceslice.Controller
	unlock    func() // releases the lock for publishing
}

// Start registers the driver with kubelet. It publishes nothing before the first Update. The driver
// runs until Stop is called or ctx is done.
func Start(ctx context.Context, options Options) (*Driver, error) {
	d, err := start(ctx, options.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("start DRA driver %s: %w", options.DriverName, err)
	}
	return d, nil
}

func start(ctx context.Context, options Options) (*Driver, error) {
	if err := options.checkSockets(); err != nil {
		return nil, err
	}
	for _, dir := range []string{options.RegistrarDir, options.PluginDataDir} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, err
		}
	}
	if err := options.removeStale(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	d, err := open(ctx, options)
	if err != nil {
		cancel()
		return nil, err
	}
	d.cancel = cancel
	d.kubelet, err = kubeletplugin.Start(ctx, plugin{d},
		kubeletplugin.DriverName(options.DriverName),
		kubeletplugin.NodeName(options.NodeName),
		kubeletplugin.KubeClient(options.KubeClient),
		kubeletplugin.RegistrarDirectoryPath(options.RegistrarDir),
		kubeletplugin.PluginDataDirectoryPath(options.PluginDataDir),
		kubeletplugin.RollingUpdate(options.Instance),
		kubeletplugin.RegistrarListener(d.listen),
		kubeletplugin.PluginListener(d.listen),
		kubeletplugin.GRPCInterceptor(d.registrations.intercept),
	)
	if err != nil {
		cancel()
		return nil, err
	}
	d.background.Go(func() { d.publish(ctx) })
	d.background.Go(func() { d.followKubelet(ctx) })
	d.background.Go(func() { d.report(ctx) })
	return d, nil
}

// open returns a driver that is not registered and has no sockets.
func open(ctx context.Context, options Options) (*Driver, error) {
	files, err := cdi.Open(options.CDIDir, options.DriverName)
	if err != nil {
		return nil, err
	}
	reports, err := openReports(options.PluginDataDir)
	var damaged *checkpoint.DamagedError
	switch {
	case errors.As(err, &damaged):
		options.OnError(ctx, err, "finding the claims whose status was written")
	case err != nil:
		return nil, err
	}
	return &Driver{options: options, files: files, reports: reports, registrations: newRegistrations(), changed: make(chan struct{})}, nil
}

// Unserved returns a driver without sockets that publishes nothing, and the plugin that handles
// kubelet's requests. Tests of this module call the plugin directly.
func Unserved(ctx context.Context, options Options) (*Driver, kubeletplugin.DRAPlugin, error) {
	d, err := open(ctx, options.withDefaults())
	return d, plugin{d}, err
}

// listener removes its socket file when it is closed.
type listener struct{ *sockets.File }

func (l listener) Close() error { return errors.Join(l.Remove(), l.Listener.Close()) }

// listen makes a socket. It returns an error if another process serves the socket.
func (d *Driver) listen(_ context.Context, path string) (net.Listener, error) {
	socket, err := sockets.Listen(path)
	if err != nil {
		return nil, err
	}
	d.sockets = append(d.sockets, socket)
	return listener{socket}, nil
}

// Healthy is for a liveness probe. It returns an error if the driver's sockets were removed or
// replaced, so that kubelet cannot reach it. The driver must then be started again.
func (d *Driver) Healthy() error {
	for _, socket := range d.sockets {
		if !socket.IsThere() {
			return fmt.Errorf("driver %s: %s: %w: kubelet does not reach the driver", d.options.DriverName, socket.Path(), sockets.ErrGone)
		}
	}
	return nil
}

// Update sets the inventory. The driver publishes its devices, and updates the status of claims
// that use them. Update returns at once.
func (d *Driver) Update(in *inventory.Inventory) {
	d.change(func() { d.inventory, d.lost = in, nil })
}

// SourceLost taints all published devices, because their state is no longer known. The next Update
// removes the taint.
func (d *Driver) SourceLost(err error) {
	d.change(func() { d.lost = err })
}

// LedgerChanged publishes the devices again, after the device plugin allocated or released some.
func (d *Driver) LedgerChanged() { d.change(func() {}) }

func (d *Driver) change(f func()) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	f()
	close(d.changed)
	d.changed = make(chan struct{})
}

// current returns the inventory, why the source ended, and a channel that is closed when either or
// the ledger changes.
func (d *Driver) current() (in *inventory.Inventory, changed <-chan struct{}, lost error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.inventory, d.changed, d.lost
}

// publish publishes each change. It has a goroutine of its own, so that Update need not wait for
// the API server.
func (d *Driver) publish(ctx context.Context) {
	if !d.awaitPublishLock(ctx) || !d.awaitKubelet(ctx) {
		return
	}
	var published *resourceslice.DriverResources
	var told []string
	for {
		in, changed, lost := d.current()
		if in != nil {
			told = d.reportUnpublished(ctx, in, told)
			inUse := d.options.Ledger.UsedBy(in, inventory.FrontDevicePlugin)
			published = in.DriverResources(d.options.DriverName, published, inUse)
			resources := published
			if lost != nil {
				resources = resourceslice.TaintAll(published, inventory.SourceTaint(d.options.DriverName, inventory.TaintSourceLost, ""))
			}
			if err := d.publishResources(ctx, resources); err != nil && ctx.Err() == nil {
				d.options.OnError(ctx, err, "publishing devices")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// maxReported is how many unpublished devices or values are reported one by one.
const maxReported = 20

// reportUnpublished reports devices and values that cannot be published, unless it reported the
// same before. It returns what was reported, for the next call.
func (d *Driver) reportUnpublished(ctx context.Context, in *inventory.Inventory, told []string) []string {
	problems := in.Unpublished(d.options.DriverName)
	now := make([]string, len(problems))
	for i, problem := range problems {
		now[i] = problem.Error()
	}
	if slices.Equal(now, told) {
		return told
	}
	for _, problem := range problems[:min(len(problems), maxReported)] {
		d.options.OnError(ctx, problem, "publishing devices")
	}
	if more := len(problems) - maxReported; more > 0 {
		d.options.OnError(ctx, fmt.Errorf("%d more devices or values are not published", more), "publishing devices")
	}
	return now
}

// awaitPublishLock waits until no other instance publishes. It returns false if ctx is done before.
func (d *Driver) awaitPublishLock(ctx context.Context) bool {
	if d.options.Instance == "" {
		return true
	}
	path := filepath.Join(d.options.PluginDataDir, "publish.lock")
	for waits := false; ; waits = true {
		unlock, err := checkpoint.LockFile(path, true)
		if err == nil {
			d.mutex.Lock()
			defer d.mutex.Unlock()
			d.unlock = unlock
			return true
		}
		var locked *checkpoint.LockedError
		switch {
		case !errors.As(err, &locked):
			d.options.OnError(ctx, err, "publishing devices")
		case !waits:
			klog.FromContext(ctx).Info("Another instance publishes the devices until it ends", "driver", d.options.DriverName)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(lockInterval):
		}
	}
}

// lockInterval is the pause between attempts to get the lock for publishing.
const lockInterval = time.Second

func (d *Driver) publishResources(ctx context.Context, resources *resourceslice.DriverResources) error {
	if controller := d.controller(); controller != nil {
		controller.Update(resources)
		return nil
	}
	controller, err := resourceslice.StartController(ctx, resourceslice.Options{
		DriverName:   d.options.DriverName,
		KubeClient:   d.options.KubeClient,
		Owner:        &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: d.options.NodeName},
		Resources:    resources,
		SyncDelay:    &d.options.RepairDelay,
		ErrorHandler: d.options.OnError,
	})
	if err != nil {
		return err
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.slices = controller
	return nil
}

func (d *Driver) controller() *resourceslice.Controller {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.slices
}

// Stats returns the number of writes to the API server.
func (d *Driver) Stats() resourceslice.Stats {
	if controller := d.controller(); controller != nil {
		return controller.GetStats()
	}
	return resourceslice.Stats{}
}

// Repairs returns how often ResourceSlices were repaired, because another writer had changed them.
func (d *Driver) Repairs() int64 {
	if controller := d.controller(); controller != nil {
		return controller.Repairs()
	}
	return 0
}

// Registered tells whether kubelet accepted the registration.
func (d *Driver) Registered() bool { return d.registrations.accepted.Load() }

// Stop ends the driver. ResourceSlices and prepared claims remain.
func (d *Driver) Stop() {
	d.stop()
	d.letOthersPublish()
}

func (d *Driver) stop() {
	d.cancel()
	d.kubelet.Stop()
	d.background.Wait()
	d.controller().Stop()
}

// Withdraw is Stop, and deletes the ResourceSlices.
func (d *Driver) Withdraw(ctx context.Context) error {
	d.stop()
	defer d.letOthersPublish()
	if controller := d.controller(); controller != nil {
		return controller.Withdraw(ctx)
	}
	return nil
}

func (d *Driver) letOthersPublish() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.unlock != nil {
		d.unlock()
		d.unlock = nil
	}
}

// errNoInventory is the answer to kubelet before the first Update.
var errNoInventory = errors.New("the devices of the node are not known yet")
