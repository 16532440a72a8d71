// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/deviceplugin"
	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/resourceslice"
)

// Options configure New. NodeName, Client and Source are required.
type Options struct {
	NodeName string
	Client   kubernetes.Interface
	Source   inventory.Source

	// KubeletDir is kubelet's root directory, by default /var/lib/kubelet.
	KubeletDir string
	// CDIDir is where CDI files are written, by default /var/run/cdi.
	CDIDir string
	// Fronts are the kubelet APIs through which devices are served. The default is both.
	Fronts []inventory.Front
	// Instance is the UID of this process's pod. If set, it is part of the names of sockets, so
	// that several processes can serve the same driver. All of them must set it.
	Instance types.UID
	// NoKubelet says that the node has no kubelet, and therefore no device plugins.
	NoKubelet bool
	// Withdraw makes Run delete the ResourceSlices when it ends. By default they remain for the
	// next start.
	Withdraw bool
	// RepairDelay is how long to wait before a ResourceSlice that another writer changed is
	// repaired. The default is resourceslice.DefaultSyncDelay.
	RepairDelay time.Duration
}

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.NodeName == "":
		return o, errors.New("node name is empty")
	case o.Client == nil:
		return o, errors.New("client is nil")
	case o.Source == nil:
		return o, errors.New("source is nil")
	}
	if o.KubeletDir == "" {
		o.KubeletDir = "/var/lib/kubelet"
	}
	if o.CDIDir == "" {
		o.CDIDir = deviceplugin.CDIDir
	}
	if len(o.Fronts) == 0 {
		o.Fronts = inventory.Fronts
	}
	return o, nil
}

// LedgerPath returns the path of a driver's ledger, below kubelet's root directory.
func LedgerPath(kubeletDir, driver string) string {
	return filepath.Join(folder(kubeletDir, driver), "ledger.json")
}

func folder(kubeletDir, driver string) string { return filepath.Join(kubeletDir, "plugins", driver) }

// withdrawTimeout limits the deletion of ResourceSlices at the end.
const withdrawTimeout = 10 * time.Second

// Node serves the devices of a node. Methods may be called concurrently. Run may be called once.
type Node struct {
	options Options
	kubelet *kubelet
	events  *events // set by Run, before anything else
	running sync.WaitGroup

	current atomic.Pointer[inventory.Inventory]
	mutex   sync.Mutex
	drivers map[string]*driverServer
}

// New returns a Node that serves nothing before Run.
func New(options Options) (*Node, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("serve node: %w", err)
	}
	n := &Node{options: options, drivers: make(map[string]*driverServer)}
	n.kubelet = newKubelet(&n.options)
	return n, nil
}

// Run serves devices until ctx is done, or one of its parts fails. If the source ends, Run taints
// all devices, goes on, and returns the source's error when ctx is done. Published slices and
// prepared claims remain, unless Options.Withdraw is set.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	n.events = newEvents(&n.options)
	defer n.events.stop()
	n.running.Go(func() { n.kubelet.follow(ctx, n.all) })
	err := n.options.Source.Run(ctx, func(in *inventory.Inventory) { n.update(ctx, cancel, in) })
	if ctx.Err() != nil {
		err = nil // a source may return the error of ctx
	} else {
		// Published slices remain, with a taint, until somebody repairs the node.
		err = fmt.Errorf("devices cannot be watched any more: %w", cmp.Or(err, errSourceEnded))
		for _, d := range n.all() {
			d.sourceLost(err)
		}
		klog.FromContext(ctx).Error(err, "All devices are tainted")
		<-ctx.Done()
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		cause = nil
	}
	cancel(nil)
	n.running.Wait()
	for _, d := range n.all() {
		err = errors.Join(err, d.failure)
	}
	return errors.Join(err, cause)
}

// update passes an inventory to all drivers, and starts those that are new.
func (n *Node) update(ctx context.Context, cancel context.CancelCauseFunc, in *inventory.Inventory) {
	n.current.Store(in)
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, name := range in.Drivers() {
		if n.drivers[name] != nil {
			continue
		}
		d := newDriverServer(&n.options, name, in)
		d.events = n.events
		n.drivers[name] = d
		n.running.Go(func() {
			if err := d.run(ctx, n.kubelet); err != nil {
				cancel(err)
			}
		})
	}
	for _, d := range n.drivers {
		d.update(in)
	}
}

// errSourceEnded is the reason if a source ends without an error.
var errSourceEnded = errors.New("the source ended")

// all returns the drivers, sorted by name.
func (n *Node) all() []*driverServer {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	var out []*driverServer
	for _, name := range slices.Sorted(maps.Keys(n.drivers)) {
		out = append(out, n.drivers[name])
	}
	return out
}

// Inventory returns the latest inventory of the source, or nil.
func (n *Node) Inventory() *inventory.Inventory { return n.current.Load() }

// Holds returns the holds of all drivers.
func (n *Node) Holds() []inventory.Hold {
	var out []inventory.Hold
	for _, d := range n.all() {
		if ledger := d.ledger.Load(); ledger != nil {
			out = append(out, ledger.Holds()...)
		}
	}
	return out
}

// Conflicts returns the devices with two users, by driver.
func (n *Node) Conflicts() map[string][]inventory.Conflict {
	out := make(map[string][]inventory.Conflict)
	for _, d := range n.all() {
		if ledger := d.ledger.Load(); ledger != nil {
			out[d.name] = ledger.Conflicts()
		}
	}
	return out
}

// Stats returns the number of writes to the API server, by driver.
func (n *Node) Stats() map[string]resourceslice.Stats {
	out := make(map[string]resourceslice.Stats)
	for _, d := range n.all() {
		if dra := d.dra.Load(); dra != nil {
			out[d.name] = dra.Stats()
		}
	}
	return out
}

// Repairs returns how often ResourceSlices were repaired that another writer changed or deleted, by
// driver.
func (n *Node) Repairs() map[string]int64 {
	out := make(map[string]int64)
	for _, d := range n.all() {
		if dra := d.dra.Load(); dra != nil {
			out[d.name] = dra.Repairs()
		}
	}
	return out
}

// Healthy is for a liveness probe. It returns an error if the process must restart, because kubelet
// cannot reach it.
func (n *Node) Healthy() error {
	for _, d := range n.all() {
		if dra := d.dra.Load(); dra != nil {
			if err := dra.Healthy(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Ready is for a readiness probe. It returns an error if devices cannot be allocated to pods.
func (n *Node) Ready() error {
	if n.current.Load() == nil {
		return errors.New("the devices of the node are not known yet")
	}
	for _, d := range n.all() {
		if err := d.ready(); err != nil {
			return err
		}
	}
	return nil
}
