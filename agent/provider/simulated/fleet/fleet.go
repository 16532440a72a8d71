// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet runs any number of simulated nodes in one process. Each node has a lease, a status
// and ResourceSlices with devices, and runs the pods that are bound to it.
//
//	informer of pods ─► one PodController ─► claims prepared ─► simulated.Provider
//	queue of nodes ───► a few workers ─────► Node, Lease, every few seconds
//	scripts ──────────► queue of nodes ────► ResourceSlices, when devices change
//	                    queue of claims ───► status.devices
//
// An idle node takes a few hundred bytes and an entry in a queue. It has no goroutine, and shares
// the description of its kind. If a node fails permanently, the error is logged, and the other
// nodes go on.
//
//	fleet      options, the beginning and the end
//	member     one node: registration, lease, status
//	objects    the node as it is created
//	devices    its ResourceSlices
//	schedule   what the scripts say
//	pods       pods of registered nodes, and those that an earlier run left
//	claims     claims of its pods
//	delete     what an earlier fleet left
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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/inventory"
	"github.com/dray-project/dray/agent/node"
	"github.com/dray-project/dray/agent/provider/simulated"
)

// LabelFleet is the label of all objects that a fleet creates. Its value is the fleet's name.
const LabelFleet = "dray.dev/simulated"

// DefaultName is the default name of a fleet.
const DefaultName = "default"

// Options configure a Fleet.
type Options struct {
	Client kubernetes.Interface
	// Kinds describe the nodes. Their scripts begin when all nodes are registered.
	Kinds []inventory.SimulatedNodes
	// Name distinguishes fleets in a cluster. It must be a valid label value. The default is
	// DefaultName.
	Name string
	// Script says how long pods run. nil: until they are deleted.
	Script *simulated.Script
	// LeaseSeconds is the duration of leases in seconds. The default is node.DefaultLeaseDuration.
	// Leases are renewed after a quarter of it.
	LeaseSeconds int32
	// IgnoreClaims runs pods without reading or writing their claims. That saves two requests per
	// claim when a pod starts, and one when it ends.
	IgnoreClaims bool
}

func (o *Options) complete() error {
	if o.Client == nil {
		return errors.New("a client is required")
	}
	if o.Name == "" {
		o.Name = DefaultName
	}
	if problems := validation.IsValidLabelValue(o.Name); len(problems) > 0 {
		return fmt.Errorf("name %q: %s", o.Name, strings.Join(problems, "; "))
	}
	if len(o.Kinds) == 0 {
		return errors.New("at least one kind of nodes is required")
	}
	if o.LeaseSeconds == 0 {
		o.LeaseSeconds = node.DefaultLeaseDuration
	}
	if o.LeaseSeconds < minLeaseSeconds {
		return fmt.Errorf("leases of %d s: at least %d s are required", o.LeaseSeconds, minLeaseSeconds)
	}
	if err := (&inventory.Hardware{Nodes: o.Kinds}).Validate(); err != nil {
		return err
	}
	for i := range o.Kinds {
		kind := &o.Kinds[i]
		in := kind.Inventory(0, nil)
		for _, driver := range kind.Drivers() {
			// A driver leaves out devices that cannot be published. Here that is an error, so that
			// mistakes in the description are found.
			if problems := in.Unpublished(driver); len(problems) > 0 {
				return fmt.Errorf("nodes %s: driver %s: cannot be published: %w", kind.Name, driver, errors.Join(problems...))
			}
		}
	}
	return nil
}

const (
	minLeaseSeconds = 4
	// concurrently is how many nodes are handled at a time. A thousand concurrent connections would
	// delay each other's TLS handshakes until they time out.
	concurrently = 16
	// podWorkers is the number of workers of each queue of pods.
	podWorkers = 16
	// requestTimeout limits the work for one node or claim at a time.
	requestTimeout = 30 * time.Second
	// Limits of the backoff after a failure.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// Fleet runs a number of simulated nodes. Its methods may be called concurrently.
type Fleet struct {
	options  Options
	members  []*member
	byName   map[string]*member
	recorder record.EventRecorder

	pods     *node.PodController
	indexer  cache.Indexer // of pods, by node name
	adoptPod func(context.Context, *corev1.Pod) (begin func(), err error)

	beats      *memberQueue // nodes whose lease or status must be written
	publishing *memberQueue // nodes whose ResourceSlices must be written
	claims     *claimKeeper // nil: claims are ignored

	registered atomic.Int64
	unsettled  atomic.Int64 // members that are neither registered nor failed
	ready      chan struct{}
}

// New returns a fleet that does nothing before Run.
func New(options Options) (*Fleet, error) {
	if err := options.complete(); err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	f := &Fleet{options: options, byName: make(map[string]*member), ready: make(chan struct{})}
	for i := range options.Kinds {
		kind := &options.Kinds[i]
		for index := range kind.Number() {
			m := &member{kind: kind, index: index, number: len(f.members), name: kind.NodeName(index)}
			f.members = append(f.members, m)
			f.byName[m.name] = m
		}
	}
	f.unsettled.Store(int64(len(f.members)))
	return f, nil
}

// Ready returns a channel that is closed when all nodes are registered and have their
// ResourceSlices, except those that failed.
func (f *Fleet) Ready() <-chan struct{} { return f.ready }

// Nodes returns the number of nodes of the fleet.
func (f *Fleet) Nodes() int { return len(f.members) }

// Registered returns the number of nodes that are registered and have their ResourceSlices.
func (f *Fleet) Registered() int { return int(f.registered.Load()) }

// Run runs the nodes until ctx ends. It must not be called twice. Nodes, leases and ResourceSlices
// remain in Kubernetes: see Delete. It returns an error if pods cannot be watched. It does so, too,
// if a dry run shows that the API server refuses a kind of nodes.
func (f *Fleet) Run(ctx context.Context) error {
	if err := f.run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("fleet: %w", err)
	}
	return nil
}

func (f *Fleet) run(ctx context.Context) error {
	if err := f.dryRunKinds(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: f.options.Client.CoreV1().Events("")})
	defer events.Shutdown()
	f.recorder = events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "dray-agent-simulate"})

	provider := simulated.New(f.options.Script)
	defer provider.Close()
	var running sync.WaitGroup
	defer running.Wait()
	f.beats, f.publishing = newMemberQueue(), newMemberQueue()
	defer f.beats.ShutDown()
	defer f.publishing.ShutDown()
	var handler node.PodLifecycleHandler = provider
	f.adoptPod = func(_ context.Context, pod *corev1.Pod) (func(), error) { return provider.Adopt(pod) }
	if !f.options.IgnoreClaims {
		f.claims = newClaimKeeper(f, provider)
		handler, f.adoptPod = f.claims, f.claims.adopt
		defer f.claims.queue.ShutDown()
		running.Go(func() { f.claims.report(ctx) })
	}
	factory := f.informers()
	defer factory.Shutdown()
	defer cancel()
	if err := f.newPodController(factory.Core().V1().Pods(), handler); err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	for range concurrently {
		running.Go(func() { f.serve(ctx, f.beats, "Node is registered or renewed again", f.beat) })
		running.Go(func() { f.serve(ctx, f.publishing, "ResourceSlices are written again", f.publish) })
	}
	running.Go(func() { f.followScripts(ctx) })
	running.Go(func() {
		select {
		case <-f.pods.Ready():
			for _, m := range f.members {
				f.beats.Add(m.number)
			}
		case <-ctx.Done():
		}
	})
	return f.pods.Run(ctx, podWorkers)
}

func (f *Fleet) informers() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(f.options.Client, 0,
		informers.WithTweakListOptions(func(list *metav1.ListOptions) {
			list.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		}),
		informers.WithTransform(func(object any) (any, error) {
			pod, ok := object.(*corev1.Pod)
			switch {
			case !ok:
			case f.byName[pod.Spec.NodeName] == nil:
				// The pod is on a node outside the fleet. The cache stores only its name and
				// version.
				return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
					Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName}}, nil
			default:
				pod.ManagedFields = nil // not needed, and half of a pod's size
			}
			return object, nil
		}))
}

// memberQueue is a workqueue with the numbers of members.
type memberQueue struct {
	workqueue.TypedRateLimitingInterface[int]
}

func newMemberQueue() *memberQueue {
	return &memberQueue{workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[int](firstRetry, lastRetry))}
}

// serve runs workers that call do for queued members, until the queue is shut down. If do returns a
// positive duration, the member is queued again after it.
func (f *Fleet) serve(ctx context.Context, queue *memberQueue, again string, do func(context.Context, *member) (time.Duration, error)) {
	one := func(number int) {
		defer queue.Done(number)
		m := f.members[number]
		limited, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		pause, err := do(limited, m)
		logger := klog.FromContext(ctx).WithValues("node", m.name)
		switch {
		case ctx.Err() != nil:
		case isFinal(err):
			logger.Error(err, "Node ended")
			f.settle(m, false)
		case err != nil:
			logger.Error(err, again)
			queue.AddRateLimited(number)
		default:
			queue.Forget(number)
			if pause > 0 {
				queue.AddAfter(number, pause)
			}
		}
	}
	for {
		number, over := queue.Get()
		if over {
			return
		}
		one(number)
	}
}

// settle records that a node is registered and has its slices, or has failed.
func (f *Fleet) settle(m *member, registered bool) {
	m.mu.Lock()
	before := m.settled
	m.settled, m.ended = true, m.ended || !registered
	m.mu.Unlock()
	if before {
		return
	}
	if registered {
		f.registered.Add(1)
	}
	if f.unsettled.Add(-1) == 0 {
		close(f.ready)
	}
}
