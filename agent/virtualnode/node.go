// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualnode

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/dray-project/dray/agent/claims"
	"github.com/dray-project/dray/agent/node"
	"github.com/dray-project/dray/agent/node/errdefs"
)

// Provider runs pods, and reports changes of their status.
type Provider interface {
	node.PodLifecycleHandler
	node.PodNotifier
}

// Devices returns the names of the CDI devices of a container. It may be called for pods that the
// provider was given.
type Devices func(ctx context.Context, pod *corev1.Pod, container string) ([]string, error)

// Options configure a Node. All are required unless they say otherwise.
type Options struct {
	Client kubernetes.Interface
	// Node is the Node object to create.
	Node *corev1.Node
	// Folder is the counterpart of kubelet's root directory. It has the drivers' sockets in
	// plugins_registry, and a checkpoint.
	Folder string
	// NewProvider returns the provider that runs the pods. The provider may record Events of pods.
	NewProvider func(devices Devices, recorder record.EventRecorder) (Provider, error)
	// LeaseSeconds is the duration of the node's lease in seconds. 0 stands for
	// node.DefaultLeaseDuration.
	LeaseSeconds int32
}

func (o *Options) validate() error {
	for _, required := range []struct {
		missing bool
		field   string
	}{
		{o.Client == nil, "Client"}, {o.Node == nil, "Node"}, {o.Folder == "", "Folder"}, {o.NewProvider == nil, "NewProvider"},
	} {
		if required.missing {
			return fmt.Errorf("virtual node: %s is required", required.field)
		}
	}
	return nil
}

// RegistrationDir returns the folder for drivers' sockets, below Options.Folder.
func RegistrationDir(folder string) string { return filepath.Join(folder, "plugins_registry") }

const (
	// workers is the number of workers per queue of pods.
	workers = 4
	// Limits of the backoff between attempts to start a pod, for instance while a driver is
	// missing.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Node is a virtual node that runs once.
type Node struct {
	options  Options
	ready    chan struct{}
	provider *claimProvider // set before ready is closed
}

// New returns a node that does nothing before Run.
func New(options Options) (*Node, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	return &Node{options: options, ready: make(chan struct{})}, nil
}

// Ready returns a channel that is closed when the node is registered and runs pods.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// GetPod returns a pod of the node as its provider has it. If the provider does not have the pod,
// for instance because it refused it, the result is the pod in Kubernetes. If there is none, the
// error is of the class NotFound. GetPod must not be called before the node is ready.
func (n *Node) GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod, err := n.provider.GetPod(ctx, namespace, name)
	if err != nil && !errdefs.IsNotFound(err) || pod != nil {
		return pod, err
	}
	pod, err = n.provider.pods.Pods(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil, errdefs.AsNotFound(err)
	}
	return pod, err
}

// GetPods returns all pods of the node, each as by GetPod.
func (n *Node) GetPods(ctx context.Context) ([]*corev1.Pod, error) {
	list, err := n.provider.pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	pods, err := n.provider.GetPods(ctx)
	if err != nil {
		return nil, err
	}
	have := sets.New[types.UID]()
	for _, pod := range pods {
		have.Insert(pod.UID)
	}
	for _, pod := range list {
		if !have.Has(pod.UID) {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// Run runs the node until ctx ends, and then returns nil. The node, its pods in Kubernetes and
// their claims remain. The next Run with the same folder finds them. Run returns an error if the
// checkpoint is damaged, if the node cannot be registered, or if the provider panics.
func (n *Node) Run(ctx context.Context) error {
	if err := n.run(ctx); err != nil {
		return fmt.Errorf("virtual node %s: %w", n.options.Node.Name, err)
	}
	return nil
}

func (n *Node) run(parent context.Context) error {
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: n.options.Client.CoreV1().Events("")})
	defer events.Shutdown()
	recorder := events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "dray-agent", Host: n.options.Node.Name})

	group, ctx := errgroup.WithContext(parent)
	preparer, err := claims.Start(ctx, claims.Options{
		KubeClient: n.options.Client, NodeName: n.options.Node.Name, Recorder: recorder,
		RegistrationDir: RegistrationDir(n.options.Folder), Checkpoint: filepath.Join(n.options.Folder, "claims.json"),
	})
	if err != nil {
		return err
	}
	defer preparer.Stop()
	provider, err := n.options.NewProvider(devicesOf(preparer), recorder)
	if err != nil {
		return fmt.Errorf("provider: %w", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(n.options.Client, 0, informers.WithTweakListOptions(func(list *metav1.ListOptions) {
		list.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", n.options.Node.Name).String()
	}))
	defer factory.Shutdown()
	claimed := newClaimProvider(provider, preparer, factory.Core().V1().Pods().Lister())
	defer claimed.background.Wait()
	n.provider = claimed
	nodes, pods, err := n.controllers(factory, claimed, recorder)
	if err != nil {
		return err
	}
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(claimed.handlers()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	group.Go(func() error { return nodes.Run(ctx) })
	group.Go(func() error { return pods.Run(ctx, workers) })
	group.Go(func() error {
		claimed.followHealth(ctx)
		return nil
	})
	group.Go(func() error {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			claimed.prepareAgain(ctx)
			claimed.sweep(ctx)
		}
		return nil
	})
	group.Go(func() error {
		for _, ready := range []<-chan struct{}{nodes.Ready(), pods.Ready()} {
			select {
			case <-ctx.Done():
				return nil
			case <-ready:
			}
		}
		close(n.ready)
		return nil
	})
	if err := group.Wait(); err != nil && parent.Err() == nil {
		return err
	}
	return nil
}

func (n *Node) controllers(factory informers.SharedInformerFactory, provider *claimProvider, recorder record.EventRecorder) (*node.NodeController, *node.PodController, error) {
	client := n.options.Client
	nodes, err := node.NewNodeController(node.NaiveNodeProvider{}, n.options.Node, client.CoreV1().Nodes(),
		node.WithNodeEnableLeaseV1(client.CoordinationV1().Leases(corev1.NamespaceNodeLease), n.options.LeaseSeconds))
	if err != nil {
		return nil, nil, err
	}
	pods, err := node.NewPodController(node.PodControllerConfig{
		PodClient: client.CoreV1(), PodInformer: factory.Core().V1().Pods(), EventRecorder: recorder, Provider: provider,
		SyncPodsFromKubernetesShouldRetryFunc: retry,
	})
	if err != nil {
		return nil, nil, err
	}
	provider.requeue = func(key string) { pods.SyncPodsFromKubernetesEnqueue(context.Background(), key) }
	return nodes, pods, nil
}

// retry is a queue.ShouldRetryFunc with a short backoff, so that a pod starts soon after a missing
// driver has appeared.
func retry(_ context.Context, _ string, tried int, _ time.Time, _ error) (*time.Duration, error) {
	pause := lastRetry
	if tried <= 6 {
		pause = min(firstRetry<<(tried-1), lastRetry)
	}
	return &pause, nil
}

func devicesOf(preparer *claims.Preparer) Devices {
	return func(_ context.Context, pod *corev1.Pod, container string) ([]string, error) {
		devices, err := preparer.CDIDevices(pod)
		return devices[container], err
	}
}
