package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/deviceplugin"
	"github.com/dray-project/dray/agent/devicetree"
	"github.com/dray-project/dray/agent/draplugin"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/podresources"
)

// agent connects a source with the fronts of each driver.
type agent struct {
	flags   *runFlags
	client  kubernetes.Interface
	ledger  *inventory.Ledger
	damaged *inventory.DamagedError // of the ledger's checkpoint, until it is rebuilt
	status  net.Listener            // for metrics and health; nil if nobody may ask
	running sync.WaitGroup

	current atomic.Pointer[inventory.Inventory]
	mutex   sync.Mutex
	fronts  map[string]*fronts // by driver
}

// fronts are how the devices of one driver get to kubelet.
type fronts struct {
	dra    *draplugin.Driver
	plugin *devicetree.Scanner
}

// run serves until ctx is done, or something ends that must not.
func (a *agent) run(ctx context.Context, source inventory.Source) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.ledger.OnChange(a.ledgerChanged)
	a.serveStatus(ctx, cancel)
	if a.flags.plugin {
		a.running.Go(func() { a.followKubelet(ctx) })
	}
	if a.flags.pods {
		if err := a.startNode(ctx, cancel); err != nil || ctx.Err() != nil {
			cancel(err)
			return errors.Join(err, a.stop())
		}
	}
	err := source.Run(ctx, func(in *inventory.Inventory) {
		if err := a.update(ctx, cancel, in); err != nil {
			cancel(err)
		}
	})
	if err != nil {
		// What was published stays, tainted, while somebody looks at the node.
		err = fmt.Errorf("devices cannot be watched any more: %w", err)
		a.sourceLost(err)
		klog.FromContext(ctx).Error(err, "All devices are tainted")
		<-ctx.Done()
	}
	return errors.Join(err, ended(ctx), a.stop())
}

// ended is why ctx is done, unless somebody asked for it.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// update hands an inventory to all fronts, and starts those of drivers that are new.
func (a *agent) update(ctx context.Context, cancel context.CancelCauseFunc, in *inventory.Inventory) error {
	if err := a.rebuild(ctx, in); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.current.Store(in)
	for _, name := range in.Drivers() {
		if a.fronts[name] != nil {
			continue
		}
		started, err := a.start(ctx, cancel, name)
		if err != nil {
			return err
		}
		a.fronts[name] = started
	}
	for _, front := range a.fronts {
		if front.dra != nil {
			front.dra.Update(in)
		}
		if front.plugin != nil {
			front.plugin.Update(in)
		}
	}
	return nil
}

// start starts the fronts of one driver.
func (a *agent) start(ctx context.Context, cancel context.CancelCauseFunc, driver string) (*fronts, error) {
	out := &fronts{}
	if a.flags.dra {
		var err error
		out.dra, err = draplugin.Start(ctx, draplugin.Options{
			DriverName:    driver,
			NodeName:      a.flags.nodeName,
			KubeClient:    a.client,
			Ledger:        a.ledger,
			RegistrarDir:  filepath.Join(a.flags.kubeletDir, "plugins_registry"),
			PluginDataDir: filepath.Join(a.flags.kubeletDir, "plugins", driver),
			CDIDir:        a.flags.cdiDir,
		})
		if err != nil {
			return nil, err
		}
	}
	if a.flags.plugin {
		folder := filepath.Join(a.flags.kubeletDir, "device-plugins")
		if err := os.MkdirAll(folder, 0o750); err != nil { // kubelet may start later
			return nil, fmt.Errorf("device plugin of %s: %w", driver, err)
		}
		out.plugin = devicetree.NewScanner(ctx, driver, a.ledger)
		manager := deviceplugin.NewManagerWithOptions(driver, out.plugin, deviceplugin.Options{PluginDir: folder, CDIDir: a.flags.cdiDir})
		a.running.Go(func() {
			if err := manager.RunWithContext(ctx); err != nil {
				cancel(fmt.Errorf("device plugin of %s: %w", driver, err))
			}
		})
	}
	return out, nil
}

// all are the fronts that run at the moment.
func (a *agent) all() []*fronts {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	var out []*fronts
	for _, front := range a.fronts {
		out = append(out, front)
	}
	return out
}

func (a *agent) ledgerChanged() {
	for _, front := range a.all() {
		if front.dra != nil {
			front.dra.LedgerChanged()
		}
		if front.plugin != nil {
			front.plugin.Refresh()
		}
	}
}

func (a *agent) sourceLost(err error) {
	for _, front := range a.all() {
		if front.dra != nil {
			front.dra.SourceLost(err)
		}
	}
}

// kubeletInterval is how often kubelet is asked which devices pods still have:
// it does not say when a device plugin's device is free again.
const kubeletInterval = 10 * time.Second

func (a *agent) followKubelet(ctx context.Context) {
	socket := filepath.Join(a.flags.kubeletDir, "pod-resources", "kubelet.sock")
	podresources.Follow(ctx, socket, kubeletInterval, func(answer *podresources.Answer) error {
		report, err := a.reportOf(ctx, answer)
		failed := []error{err}
		for _, front := range a.all() {
			failed = append(failed, front.plugin.SetInUse(report))
		}
		return errors.Join(failed...)
	})
}

// reportOf adds to kubelet's answer which resources have devices that can be told free. The
// pods are listed after kubelet was asked: one that came in between is among them. Without
// them, the error says so, and the report frees nothing.
func (a *agent) reportOf(ctx context.Context, answer *podresources.Answer) (devicetree.Report, error) {
	report := devicetree.Report{Asked: answer.Asked, InUse: answer.InUse}
	pods, err := a.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + a.flags.nodeName})
	if err != nil {
		return report, fmt.Errorf("pods of the node: %w: no device of a plugin becomes free", err)
	}
	unexplained := answer.Unexplained(pods.Items)
	report.Free = func(resource string) bool { return !unexplained[resource] }
	return report, nil
}

// stop ends all fronts. The context that they were started with is done.
func (a *agent) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	var failed []error
	for _, front := range a.all() {
		switch {
		case front.dra == nil:
		case a.flags.withdraw:
			failed = append(failed, front.dra.Withdraw(ctx))
		default:
			front.dra.Stop()
		}
	}
	a.running.Wait()
	return errors.Join(failed...)
}
