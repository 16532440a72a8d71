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

	// KubeletDir is kubelet's folder, by default /var/lib/kubelet.
	KubeletDir string
	// CDIDir is where CDI files are written, by default /var/run/cdi.
	CDIDir string
	// Fronts are what kubelet is served through, by default both.
	Fronts []inventory.Front
	// Instance, if any, is the UID of this process's pod, and part of the names of its sockets: others of
	// the same driver may run beside it. All of them must have an Instance.
	Instance types.UID
	// NoKubelet says that pods are run by others than kubelet, which have no device plugins.
	NoKubelet bool
	// Withdraw has ResourceSlices deleted at the end. Otherwise they stay for the next start.
	Withdraw bool
	// RepairDelay is how long a ResourceSlice that somebody else wrote stays as it is before it is put
	// right. The default is resourceslice.DefaultSyncDelay.
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

// LedgerPath is where the ledger of a driver is, below kubelet's folder.
func LedgerPath(kubeletDir, driver string) string {
	return filepath.Join(folder(kubeletDir, driver), "ledger.json")
}

func folder(kubeletDir, driver string) string { return filepath.Join(kubeletDir, "plugins", driver) }

// withdrawTimeout is how long ResourceSlices may take to be deleted at the end.
const withdrawTimeout = 10 * time.Second

// Node serves the devices of a node. Methods may be called concurrently; Run is called once.
type Node struct {
	options Options
	kubelet *kubelet
	events  *events // set by Run, before anything else
	running sync.WaitGroup

	current atomic.Pointer[inventory.Inventory]
	mutex   sync.Mutex
	drivers map[string]*served
}

// New returns a Node that serves nothing before Run.
func New(options Options) (*Node, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("serve node: %w", err)
	}
	n := &Node{options: options, drivers: make(map[string]*served)}
	n.kubelet = newKubelet(&n.options)
	return n, nil
}

// Run serves until ctx is done, or something ends that must not. If the source ends, all devices are
// tainted, and Run returns why when ctx is done. What is published and prepared stays, unless
// Options.Withdraw says otherwise.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	n.events = newEvents(&n.options)
	defer n.events.stop()
	n.running.Go(func() { n.kubelet.follow(ctx, n.all) })
	err := n.options.Source.Run(ctx, func(in *inventory.Inventory) { n.update(ctx, cancel, in) })
	if ctx.Err() != nil {
		err = nil // sources may return why ctx is done
	} else {
		// What was published stays, tainted, while somebody looks at the node.
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

// update hands an inventory to all drivers, and has those served that are new.
func (n *Node) update(ctx context.Context, cancel context.CancelCauseFunc, in *inventory.Inventory) {
	n.current.Store(in)
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, name := range in.Drivers() {
		if n.drivers[name] != nil {
			continue
		}
		d := newServed(&n.options, name, in)
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

// errSourceEnded is why nothing is known of devices if the source does not say.
var errSourceEnded = errors.New("the source ended")

// all are the drivers, by name.
func (n *Node) all() []*served {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	var out []*served
	for _, name := range slices.Sorted(maps.Keys(n.drivers)) {
		out = append(out, n.drivers[name])
	}
	return out
}

// Inventory is what the source reported last, or nil.
func (n *Node) Inventory() *inventory.Inventory { return n.current.Load() }

// Holds are all holds of all drivers.
func (n *Node) Holds() []inventory.Hold {
	var out []inventory.Hold
	for _, d := range n.all() {
		if ledger := d.ledger.Load(); ledger != nil {
			out = append(out, ledger.Holds()...)
		}
	}
	return out
}

// Conflicts are the devices that have two users, by driver.
func (n *Node) Conflicts() map[string][]inventory.Conflict {
	out := make(map[string][]inventory.Conflict)
	for _, d := range n.all() {
		if ledger := d.ledger.Load(); ledger != nil {
			out[d.name] = ledger.Conflicts()
		}
	}
	return out
}

// Stats counts what was written to the API server, by driver.
func (n *Node) Stats() map[string]resourceslice.Stats {
	out := make(map[string]resourceslice.Stats)
	for _, d := range n.all() {
		if dra := d.dra.Load(); dra != nil {
			out[d.name] = dra.Stats()
		}
	}
	return out
}

// Repairs counts by driver how often ResourceSlices were put right that somebody else had written
// or deleted.
func (n *Node) Repairs() map[string]int64 {
	out := make(map[string]int64)
	for _, d := range n.all() {
		if dra := d.dra.Load(); dra != nil {
			out[d.name] = dra.Repairs()
		}
	}
	return out
}

// Healthy returns an error if the process must be started again: kubelet cannot reach it.
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

// Ready returns why devices cannot be handed out, if so.
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
