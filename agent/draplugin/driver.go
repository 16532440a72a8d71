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
	// Ledger is shared with the device plugin.
	Ledger *inventory.Ledger

	// RegistrarDir is where kubelet looks for plugins. The default is kubelet's.
	RegistrarDir string
	// PluginDataDir is where the plugin's socket is. The default is the driver's
	// directory below kubelet's plugin directory.
	PluginDataDir string
	// CDIDir is where CDI files are written.
	CDIDir string
	// Instance, if any, is the UID of the driver's pod, and part of the names of sockets: a new instance
	// may start while the old one runs, as in a rolling update of a DaemonSet with maxSurge. Kubelet asks
	// the one that registered last. The old one goes on publishing until it ends.
	Instance types.UID

	// RepairDelay is how long a ResourceSlice that somebody else wrote stays as it is before it is put
	// right. The default is resourceslice.DefaultSyncDelay.
	RepairDelay time.Duration
	// OnError is told what goes wrong in the background, as that of resourceslice.Options is. The default
	// logs.
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

// checkSockets finds out whether both sockets can be made, before one of them is.
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

// lengthOfInstance is that of the UID of a pod.
const lengthOfInstance = 36

// removeStale removes the sockets of other instances that were killed. Kubelet would try to reach them again and again.
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
	options    Options
	files      *cdi.Files
	sockets    []*sockets.File
	reports    *reports
	kubelet    *kubeletplugin.Helper
	cancel     context.CancelFunc
	background sync.WaitGroup
	preparing  sync.Mutex // serializes what changes CDI files and the ledger together

	mutex     sync.Mutex
	inventory *inventory.Inventory // nil until the first Update
	lost      error                // why the source ended
	changed   chan struct{}        // closed when any of this changes, or the ledger
	slices    *resourceslice.Controller
	unlock    func() // lets another instance publish
}

// Start registers the driver with kubelet. It publishes nothing before the first
// Update. The driver runs until Stop, or until ctx is done.
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
	)
	if err != nil {
		cancel()
		return nil, err
	}
	d.background.Go(func() { d.publish(ctx) })
	d.background.Go(func() { d.report(ctx) })
	return d, nil
}

// open makes a driver of which nobody knows.
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
	return &Driver{options: options, files: files, reports: reports, changed: make(chan struct{})}, nil
}

// Unserved returns a driver that has no sockets and publishes nothing, and what answers kubelet's
// requests. It is for tests of this module, which call that themselves.
func Unserved(ctx context.Context, options Options) (*Driver, kubeletplugin.DRAPlugin, error) {
	d, err := open(ctx, options.withDefaults())
	return d, plugin{d}, err
}

// listener removes its socket when it is closed.
type listener struct{ *sockets.File }

func (l listener) Close() error { return errors.Join(l.Remove(), l.Listener.Close()) }

// listen makes a socket, unless another process answers at it.
func (d *Driver) listen(_ context.Context, path string) (net.Listener, error) {
	socket, err := sockets.Listen(path)
	if err != nil {
		return nil, err
	}
	d.sockets = append(d.sockets, socket)
	return listener{socket}, nil
}

// Healthy returns an error if kubelet cannot reach the driver any more, because somebody removed or
// replaced its sockets. Only another Start helps.
func (d *Driver) Healthy() error {
	for _, socket := range d.sockets {
		if !socket.IsThere() {
			return fmt.Errorf("driver %s: %s: %w: kubelet does not reach the driver", d.options.DriverName, socket.Path(), sockets.ErrGone)
		}
	}
	return nil
}

// Update has the driver's devices in an inventory published, and the status of claims that
// have some of them. It returns at once.
func (d *Driver) Update(in *inventory.Inventory) {
	d.change(func() { d.inventory, d.lost = in, nil })
}

// SourceLost has all that is published tainted, because nobody knows any more
// whether it is true. The devices are as before with the next Update.
func (d *Driver) SourceLost(err error) {
	d.change(func() { d.lost = err })
}

// LedgerChanged has devices published again that the device plugin handed out,
// or took back.
func (d *Driver) LedgerChanged() { d.change(func() {}) }

func (d *Driver) change(f func()) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	f()
	close(d.changed)
	d.changed = make(chan struct{})
}

// current is the inventory, what is closed when anything of this changes, and why
// the source ended.
func (d *Driver) current() (in *inventory.Inventory, changed <-chan struct{}, lost error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.inventory, d.changed, d.lost
}

// publish publishes each change. It has its own goroutine: an API server that is
// not there does not hold up whoever reports devices.
func (d *Driver) publish(ctx context.Context) {
	if !d.awaitTurn(ctx) {
		return
	}
	var published *resourceslice.DriverResources
	var told []string
	for {
		in, changed, lost := d.current()
		if in != nil {
			told = d.tellUnpublished(ctx, in, told)
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

// maxTold is how many things that are not published are told one by one.
const maxTold = 20

// tellUnpublished tells what is not published, unless that was told before, and returns what
// need not be told again.
func (d *Driver) tellUnpublished(ctx context.Context, in *inventory.Inventory, told []string) []string {
	problems := in.Unpublished(d.options.DriverName)
	now := make([]string, len(problems))
	for i, problem := range problems {
		now[i] = problem.Error()
	}
	if slices.Equal(now, told) {
		return told
	}
	for _, problem := range problems[:min(len(problems), maxTold)] {
		d.options.OnError(ctx, problem, "publishing devices")
	}
	if more := len(problems) - maxTold; more > 0 {
		d.options.OnError(ctx, fmt.Errorf("%d more devices or values are not published", more), "publishing devices")
	}
	return now
}

// awaitTurn returns when no other instance publishes, or false if ctx is done before.
func (d *Driver) awaitTurn(ctx context.Context) bool {
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
		case <-time.After(turnInterval):
		}
	}
}

// turnInterval is how often it is looked whether another instance publishes.
const turnInterval = time.Second

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

// Stats counts what was written to the API server.
func (d *Driver) Stats() resourceslice.Stats {
	if controller := d.controller(); controller != nil {
		return controller.GetStats()
	}
	return resourceslice.Stats{}
}

// Repairs is how often what was published had to be put right, because somebody else had
// changed it.
func (d *Driver) Repairs() int64 {
	if controller := d.controller(); controller != nil {
		return controller.Repairs()
	}
	return 0
}

// Registered tells whether kubelet accepted the driver.
func (d *Driver) Registered() bool {
	status := d.kubelet.RegistrationStatus()
	return status != nil && status.PluginRegistered
}

// Stop ends all that runs in the background. What is published and prepared
// stays.
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

// Withdraw is Stop, and deletes what is published.
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

// errNoInventory is answered to kubelet before the first Update.
var errNoInventory = errors.New("the devices of the node are not known yet")
