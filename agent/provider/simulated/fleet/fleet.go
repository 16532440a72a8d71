// Package fleet runs any number of simulated nodes in one process: each has a lease, a
// status, a ResourceSlice with devices, and runs the pods that are bound to it.
//
//	one informer of pods ─► node.PodFeed ─► a PodController per node ─► simulated.Provider
//	                                        a NodeController per node ─► Node, Lease
//	                                        a ResourceSlice per node
//
// All nodes share one client and its rate limit. A node that fails ends with an error in
// the log; the others go on.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/informers"
	v1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/node"
	"github.com/dray-project/dray/agent/provider/simulated"
)

// Options configure a Fleet.
type Options struct {
	Client kubernetes.Interface
	// Nodes is how many nodes there are, and Prefix what their numbers follow in their
	// names, which must be DNS subdomains.
	Nodes  int
	Prefix string
	// Driver is the name of the driver of Devices GPUs per node. 0 stands for no
	// ResourceSlices.
	Driver  string
	Devices int
	// Script says what pods do; nil: they run until they are deleted.
	Script *simulated.Script
	// LeaseSeconds is how long leases last; 0: DefaultLeaseDuration.
	LeaseSeconds int32
}

// maxDevices is how many devices fit into a ResourceSlice.
const maxDevices = 128

func (o *Options) validate() error {
	switch {
	case o.Client == nil:
		return errors.New("fleet: a client is required")
	case o.Nodes < 1:
		return fmt.Errorf("fleet: %d nodes: at least 1 is required", o.Nodes)
	case o.Devices < 0 || o.Devices > maxDevices:
		return fmt.Errorf("fleet: %d devices per node: must be from 0 to %d", o.Devices, maxDevices)
	case o.Devices > 0 && o.Driver == "":
		return errors.New("fleet: devices need the name of a driver")
	}
	last := o.nodeName(o.Nodes - 1) // the longest
	if problems := validation.IsDNS1123Subdomain(last); len(problems) > 0 {
		return fmt.Errorf("fleet: prefix %q: node %q: name: %s", o.Prefix, last, strings.Join(problems, "; "))
	}
	if problems := validation.IsDNS1123Subdomain(o.Driver); o.Devices > 0 && len(problems) > 0 {
		return fmt.Errorf("fleet: driver %q: %s", o.Driver, strings.Join(problems, "; "))
	}
	return nil
}

func (o *Options) nodeName(i int) string { return fmt.Sprintf("%s%d", o.Prefix, i) }

// Fleet is a number of simulated nodes.
type Fleet struct {
	options  Options
	pods     v1.PodInformer
	factory  informers.SharedInformerFactory
	recorder record.EventRecorder
	events   record.EventBroadcaster

	beginning  sync.WaitGroup // nodes that are neither registered nor ended yet
	turns      chan struct{}  // has room for the nodes that may begin at a time
	registered atomic.Int64
	ready      chan struct{}
}

// New returns a fleet that does nothing before Run.
func New(options Options) (*Fleet, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	f := &Fleet{options: options, ready: make(chan struct{}), turns: make(chan struct{}, concurrently)}
	f.factory = informers.NewSharedInformerFactoryWithOptions(options.Client, 0,
		informers.WithTweakListOptions(func(list *metav1.ListOptions) {
			list.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		}),
		// Nobody looks at managed fields, and they are half of a pod.
		informers.WithTransform(func(object any) (any, error) {
			if pod, ok := object.(*corev1.Pod); ok {
				pod.ManagedFields = nil
			}
			return object, nil
		}))
	f.pods = f.factory.Core().V1().Pods()
	return f, nil
}

// Ready is closed when all nodes are registered and have their ResourceSlices, but for
// those that ended with an error.
func (f *Fleet) Ready() <-chan struct{} { return f.ready }

// Registered is how many nodes are, or were, registered and have their ResourceSlices.
func (f *Fleet) Registered() int { return int(f.registered.Load()) }

// Run runs the nodes until ctx ends. Nodes, leases and ResourceSlices stay in Kubernetes.
func (f *Fleet) Run(ctx context.Context) error {
	feed, err := node.NewPodFeed(ctx, f.pods)
	if err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	f.events = record.NewBroadcaster()
	f.events.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: f.options.Client.CoreV1().Events("")})
	defer f.events.Shutdown()
	f.recorder = f.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "dray-agent-simulate"})

	f.factory.Start(ctx.Done())
	defer f.factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), feed.HasSynced) {
		return nil
	}
	var nodes sync.WaitGroup
	f.beginning.Add(f.options.Nodes)
	for i := range f.options.Nodes {
		nodes.Go(func() {
			name := f.options.nodeName(i)
			if err := f.runNode(ctx, feed, name); err != nil {
				klog.FromContext(ctx).Error(err, "Node ended", "node", name)
			}
		})
	}
	nodes.Go(func() {
		f.beginning.Wait()
		if ctx.Err() == nil {
			close(f.ready)
		}
	})
	nodes.Wait()
	return nil
}

const (
	// workers are how many each queue of a node has: the pods of one node are few.
	workers = 1
	// concurrently is how many nodes begin at a time. A thousand that connect at once wait
	// for each other's handshakes until these time out.
	concurrently = 16
)

// runNode runs one node until ctx ends or one of its controllers fails.
func (f *Fleet) runNode(ctx context.Context, feed *node.PodFeed, name string) error {
	select {
	case f.turns <- struct{}{}:
	case <-ctx.Done():
		f.beginning.Done()
		return nil
	}
	begun := sync.OnceFunc(func() { <-f.turns; f.beginning.Done() })
	defer begun()
	provider := simulated.New(f.options.Script)
	defer provider.Close()
	nodes, pods, err := f.controllers(feed, provider, name)
	if err != nil {
		return err
	}
	if err := feed.Add(name, pods); err != nil {
		return err
	}
	defer feed.Remove(name)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	failures := make([]error, 3)
	run := func(i int, part func(context.Context) error) {
		group.Go(func() {
			if failures[i] = part(ctx); failures[i] != nil {
				cancel()
			}
		})
	}
	run(0, nodes.Run)
	run(1, func(ctx context.Context) error { return pods.Run(ctx, workers) })
	run(2, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-nodes.Ready():
		}
		if err := f.publish(ctx, name); err != nil || ctx.Err() != nil {
			return err
		}
		f.registered.Add(1)
		begun()
		return nil
	})
	group.Wait()
	return errors.Join(failures...)
}

func (f *Fleet) controllers(feed *node.PodFeed, provider *simulated.Provider, name string) (*node.NodeController, *node.PodController, error) {
	client := f.options.Client
	nodes, err := node.NewNodeController(node.NaiveNodeProvider{}, newNode(name), client.CoreV1().Nodes(),
		node.WithNodeEnableLeaseV1(client.CoordinationV1().Leases(corev1.NamespaceNodeLease), f.options.LeaseSeconds))
	if err != nil {
		return nil, nil, err
	}
	pods, err := node.NewPodController(node.PodControllerConfig{
		PodClient: client.CoreV1(), PodLister: f.pods.Lister(), PodEventFilterFunc: feed.FilterFor(name),
		EventRecorder: f.recorder, Provider: provider,
	})
	return nodes, pods, err
}

// publishRetry is the pause before a ResourceSlice is written again that could not be.
const publishRetry = time.Second
