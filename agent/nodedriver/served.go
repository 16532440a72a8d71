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
	"github.com/dray-project/dray/agent/inventory"
)

// served is one driver.
type served struct {
	options *Options
	name    string
	claims  func(context.Context) ([]resourceapi.ResourceClaim, error)
	events  *events
	plugin  *devicetree.Scanner
	failure error // of the end; to be read when run has returned
	forgot  bool  // the ledger was lost

	in     atomic.Pointer[inventory.Inventory] // never nil
	lost   atomic.Pointer[error]               // why the source ended
	ledger atomic.Pointer[inventory.Ledger]    // nil before it is open
	dra    atomic.Pointer[draplugin.Driver]    // nil before it is served

	known  chan struct{} // closed when the ledger knows all users
	knows  sync.Once     // closes it
	waits  teller        // for what the ledger is to know
	others teller        // what else is told
}

func newServed(options *Options, name string, in *inventory.Inventory) *served {
	d := &served{options: options, name: name, claims: options.listClaims, known: make(chan struct{})}
	d.in.Store(in)
	return d
}

// update takes over an inventory.
func (d *served) update(in *inventory.Inventory) {
	d.in.Store(in)
	d.handOver()
}

// sourceLost has everything tainted until the next update.
func (d *served) sourceLost(err error) {
	d.lost.Store(&err)
	d.handOver()
}

// handOver gives what is known to the fronts that run.
func (d *served) handOver() {
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

func (d *served) serves(front inventory.Front) bool { return slices.Contains(d.options.Fronts, front) }

// run serves the driver until ctx is done, or it cannot be served.
func (d *served) run(ctx context.Context, kubelet *kubelet) error {
	logger := klog.FromContext(ctx).WithValues("driver", d.name)
	ctx = klog.NewContext(ctx, logger)
	dir := folder(d.options.KubeletDir, d.name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("driver %s: %w", d.name, err)
	}
	lock := filepath.Join(dir, "instance.lock")
	_, err := os.Stat(lock)
	again := err == nil // the driver was served here before
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
	d.forgot = again
	var damaged *inventory.DamagedError
	switch {
	case errors.As(err, &damaged):
		logger.Error(err, "The ledger is rebuilt")
		d.forgot = true
	case err != nil:
		return fmt.Errorf("driver %s: ledger: %w", d.name, err)
	}
	d.use(ctx, ledger)
	if !d.rebuild(ctx, ledger, kubelet) {
		return nil
	}
	return d.serve(ctx, ledger)
}

// use has all that happens noted in a ledger.
func (d *served) use(ctx context.Context, ledger *inventory.Ledger) {
	ledger.OnChange(d.ledgerChanged)
	d.plugin = devicetree.NewScanner(ctx, d.name, ledger)
	d.ledger.Store(ledger)
	d.handOver()
}

// serve serves the fronts. The ledger knows all users.
func (d *served) serve(ctx context.Context, ledger *inventory.Ledger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if d.serves(inventory.FrontDRA) {
		dra, err := draplugin.Start(ctx, draplugin.Options{
			DriverName:    d.name,
			NodeName:      d.options.NodeName,
			KubeClient:    d.options.Client,
			Ledger:        ledger,
			RegistrarDir:  filepath.Join(d.options.KubeletDir, "plugins_registry"),
			PluginDataDir: folder(d.options.KubeletDir, d.name),
			CDIDir:        d.options.CDIDir,
			Instance:      d.options.Instance,
			RepairDelay:   d.options.RepairDelay,
			OnError:       d.background,
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
			//nolint:errcheck // it was told, or ctx is done
			<-ended
		}()
	}
	d.handOver()
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
				d.others.tell(ctx, "ledger", fmt.Sprintf("What other instances did is not known: %v", err))
			}
		}
	}
}

// rereadInterval is how often it is looked what other instances changed in the ledger. Each change is
// made to what is stored; this is for what is published.
const rereadInterval = time.Second

func (d *served) stop(dra *draplugin.Driver) error {
	if !d.options.Withdraw {
		dra.Stop()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	return dra.Withdraw(ctx)
}

func (d *served) ledgerChanged() {
	if dra := d.dra.Load(); dra != nil {
		dra.LedgerChanged()
	}
	d.plugin.Refresh()
}

// ready returns why the driver's devices cannot be handed out, if so.
func (d *served) ready() error {
	select {
	case <-d.known:
	default:
		return fmt.Errorf("driver %s: not served before it is known who has devices: %s", d.name, d.waits.last("users", "it is being asked"))
	}
	dra := d.dra.Load()
	if d.serves(inventory.FrontDRA) && (dra == nil || !dra.Registered()) {
		return fmt.Errorf("kubelet did not register driver %s yet", d.name)
	}
	return nil
}
