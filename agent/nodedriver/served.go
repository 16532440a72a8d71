// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedriver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/deviceplugin"
	"github.com/dray-project/dray/agent/devicetree"
	"github.com/dray-project/dray/agent/draplugin"
	"github.com/dray-project/dray/agent/internal/checkpoint"
	"github.com/dray-project/dray/agent/internal/sockets"
	"github.com/dray-project/dray/agent/inventory"
)

// driverServer serves one driver.
type driverServer struct {
	options    *Options
	name       string
	claims     func(context.Context) ([]resourceapi.ResourceClaim, error)
	events     *events
	plugin     *devicetree.Scanner
	failure    error // error at the end; valid when run has returned
	ledgerLost bool  // the ledger was lost, so that devices may have users it does not know

	in     atomic.Pointer[inventory.Inventory] // the latest inventory; never nil
	lost   atomic.Pointer[error]               // why the source ended, or nil
	ledger atomic.Pointer[inventory.Ledger]    // nil before it is open
	dra    atomic.Pointer[draplugin.Driver]    // nil before it runs

	rebuilt         chan struct{} // closed when the ledger knows all users
	closeRebuilt    sync.Once     // closes rebuilt once
	rebuildProblems problemLog    // problems of rebuilding the ledger
	problems        problemLog    // all other problems
}

func newDriverServer(options *Options, name string, in *inventory.Inventory) *driverServer {
	d := &driverServer{options: options, name: name, claims: options.listClaims, rebuilt: make(chan struct{})}
	d.in.Store(in)
	return d
}

// update sets the inventory.
func (d *driverServer) update(in *inventory.Inventory) {
	d.in.Store(in)
	d.pushState()
}

// sourceLost has all devices tainted until the next update.
func (d *driverServer) sourceLost(err error) {
	d.lost.Store(&err)
	d.pushState()
}

// pushState passes inventory and state of the source to the fronts that run.
func (d *driverServer) pushState() {
	if dra := d.dra.Load(); dra != nil {
		dra.Update(d.in.Load())
		if lost := d.lost.Load(); lost != nil {
			dra.SourceLost(*lost)
		}
	}
	if d.ledger.Load() != nil {
		d.plugin.Update(d.in.Load())
	}
}

func (d *driverServer) serves(front inventory.Front) bool {
	return slices.Contains(d.options.Fronts, front)
}

// run serves the driver until ctx is done, or the driver cannot be served.
func (d *driverServer) run(ctx context.Context, kubelet *kubelet) error {
	logger := klog.FromContext(ctx).WithValues("driver", d.name)
	ctx = klog.NewContext(ctx, logger)
	dir := folder(d.options.KubeletDir, d.name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("driver %s: %w", d.name, err)
	}
	lock := filepath.Join(dir, "instance.lock")
	_, err := os.Stat(lock)
	servedBefore := err == nil // the driver was served on this node before
	unlock, err := checkpoint.LockFile(lock, d.options.Instance == "")
	var locked *checkpoint.LockedError
	switch {
	case errors.As(err, &locked):
		return fmt.Errorf("driver %s: another process serves it on this node: %w", d.name, err)
	case err != nil:
		return fmt.Errorf("driver %s: %w", d.name, err)
	}
	defer unlock()
	ledger, err := inventory.OpenLedger(LedgerPath(d.options.KubeletDir, d.name))
	d.ledgerLost = servedBefore
	var damaged *inventory.DamagedError
	switch {
	case errors.As(err, &damaged):
		logger.Error(err, "The ledger is rebuilt")
		d.ledgerLost = true
	case err != nil:
		return fmt.Errorf("driver %s: ledger: %w", d.name, err)
	}
	d.attachLedger(ctx, ledger)
	if !d.rebuild(ctx, ledger, kubelet) {
		return nil
	}
	return d.serve(ctx, ledger)
}

// attachLedger makes the ledger the store of all allocations of the driver.
func (d *driverServer) attachLedger(ctx context.Context, ledger *inventory.Ledger) {
	ledger.OnChange(d.ledgerChanged)
	d.plugin = devicetree.NewScanner(ctx, d.name, ledger)
	d.ledger.Store(ledger)
	d.pushState()
}

// serve runs the fronts. The ledger must know all users.
func (d *driverServer) serve(ctx context.Context, ledger *inventory.Ledger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if d.serves(inventory.FrontDRA) {
		var awaitKubelet time.Duration
		if sockets.Answers(d.options.podResources()) {
			awaitKubelet = registrationTimeout
		}
		dra, err := draplugin.Start(ctx, draplugin.Options{
			DriverName:    d.name,
			NodeName:      d.options.NodeName,
			KubeClient:    d.options.Client,
			Ledger:        ledger,
			RegistrarDir:  filepath.Join(d.options.KubeletDir, "plugins_registry"),
			PluginDataDir: folder(d.options.KubeletDir, d.name),
			CDIDir:        d.options.CDIDir,
			Instance:      d.options.Instance,
			AwaitKubelet:  awaitKubelet,
			RepairDelay:   d.options.RepairDelay,
			OnError:       d.onError,
		})
		if err != nil {
			return err
		}
		d.dra.Store(dra)
		defer func() { d.failure = d.stop(dra) }()
	}
	ended := make(chan error, 1)
	if d.serves(inventory.FrontDevicePlugin) {
		dir := filepath.Join(d.options.KubeletDir, "device-plugins")
		if err := os.MkdirAll(dir, 0o750); err != nil { // kubelet may start later
			return fmt.Errorf("device plugin of %s: %w", d.name, err)
		}
		manager := deviceplugin.NewManagerWithOptions(d.name, d.plugin, deviceplugin.Options{
			PluginDir: dir, CDIDir: d.options.CDIDir, Instance: string(d.options.Instance),
		})
		go func() { ended <- manager.RunWithContext(ctx) }()
		defer func() {
			cancel(nil)
			//nolint:errcheck // the error was returned before, or ctx is done
			<-ended
		}()
	}
	d.pushState()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			ended <- nil
			if err != nil {
				err = fmt.Errorf("device plugin of %s: %w", d.name, err)
			}
			return err
		case <-time.After(rereadInterval):
			if d.options.Instance == "" {
				continue
			}
			if err := ledger.Reread(); err != nil {
				d.problems.set(ctx, "ledger", fmt.Sprintf("What other instances did is not known: %v", err))
			}
		}
	}
}

// registrationTimeout is how long a kubelet that runs may take to register the driver before its
// devices are published. It looks for sockets once a second.
const registrationTimeout = 10 * time.Second

// rereadInterval is how often the ledger is read again for changes by other instances. Allocations
// do not need that: they change the stored ledger under its lock. It is for what is published.
const rereadInterval = time.Second

func (d *driverServer) stop(dra *draplugin.Driver) error {
	if !d.options.Withdraw {
		dra.Stop()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	return dra.Withdraw(ctx)
}

func (d *driverServer) ledgerChanged() {
	if dra := d.dra.Load(); dra != nil {
		dra.LedgerChanged()
	}
	d.plugin.Refresh()
}

// ready returns why the driver's devices cannot be allocated to pods, or nil.
func (d *driverServer) ready() error {
	select {
	case <-d.rebuilt:
	default:
		return fmt.Errorf("driver %s: not served before it is known who has devices: %s", d.name, d.rebuildProblems.last("users", "it is being asked"))
	}
	dra := d.dra.Load()
	if d.serves(inventory.FrontDRA) && (dra == nil || !dra.Registered()) {
		return fmt.Errorf("kubelet did not register driver %s yet", d.name)
	}
	return nil
}
