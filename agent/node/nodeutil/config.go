// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeutil

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/dray-project/dray/agent/node"
)

// NodeConfig is the configuration of a Node. NewNode sets defaults, and options change it.
type NodeConfig struct {
	// Client is required. By default it is the result of ClientsetFromEnv, if that succeeds.
	Client kubernetes.Interface

	// NodeSpec is the Node object to register.
	NodeSpec corev1.Node
	// KubeconfigPath is the value of the environment variable KUBECONFIG. The default client is
	// made before options run, so that a change has no effect on it.
	KubeconfigPath string
	// InformerResyncPeriod is the resync period of informers. The default is one minute.
	InformerResyncPeriod time.Duration

	// HTTPListenAddr is the address at which Handler is served. The default is ":10250".
	HTTPListenAddr string
	// Handler serves requests. It must authorize them itself. If it is nil, nothing is served.
	Handler http.Handler
	// StreamIdleTimeout and StreamCreationTimeout are for AttachProviderRoutes: see
	// api.PodHandlerConfig.
	StreamIdleTimeout     time.Duration
	StreamCreationTimeout time.Duration
	// DebugHTTP has no effect: AttachProviderRoutes always serves /runningpods/.
	DebugHTTP bool
	// TLSConfig is the TLS configuration of the server. If it is nil, nothing is served.
	TLSConfig *tls.Config

	// EventRecorder records Events of pods. The default writes them with Client.
	EventRecorder record.EventRecorder

	// NumWorkers is the number of workers of each queue of pods. The default is the number of CPUs.
	NumWorkers int

	// NodeStatusUpdateErrorHandler is the argument of node.WithNodeStatusUpdateErrorHandler.
	NodeStatusUpdateErrorHandler node.ErrorHandler

	// SkipDownwardAPIResolution makes the PodController leave references to the downward API in
	// pods, for the provider to resolve.
	SkipDownwardAPIResolution bool

	// PodControllerConfigOpts change the configuration of the PodController. They run in order,
	// after all else is set. If one returns an error, so does NewNode.
	PodControllerConfigOpts []func(*node.PodControllerConfig) error

	routeAttacher func(Provider, NodeConfig, corev1listers.PodLister)
}

// NodeOpt changes the configuration of a Node. If it returns an error, so does NewNode.
type NodeOpt func(c *NodeConfig) error

// WithNodeConfig replaces the whole configuration, including defaults.
func WithNodeConfig(c NodeConfig) NodeOpt {
	return func(cfg *NodeConfig) error {
		*cfg = c
		return nil
	}
}

// WithClient sets the client.
func WithClient(c kubernetes.Interface) NodeOpt {
	return func(cfg *NodeConfig) error {
		cfg.Client = c
		return nil
	}
}

// WithPodControllerConfigOverrides appends to PodControllerConfigOpts.
func WithPodControllerConfigOverrides(opts ...func(*node.PodControllerConfig) error) NodeOpt {
	return func(cfg *NodeConfig) error {
		cfg.PodControllerConfigOpts = append(cfg.PodControllerConfigOpts, opts...)
		return nil
	}
}

func defaultConfig(name string) NodeConfig {
	cfg := NodeConfig{
		NumWorkers:           runtime.NumCPU(),
		InformerResyncPeriod: time.Minute,
		KubeconfigPath:       os.Getenv("KUBECONFIG"),
		HTTPListenAddr:       ":10250",
		NodeSpec: corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:   name,
				Labels: map[string]string{"type": "virtual-kubelet", "kubernetes.io/role": "agent", corev1.LabelHostname: name},
			},
			Status: corev1.NodeStatus{Phase: corev1.NodePending},
		},
	}
	for _, condition := range []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeDiskPressure, corev1.NodeMemoryPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable,
	} {
		cfg.NodeSpec.Status.Conditions = append(cfg.NodeSpec.Status.Conditions, corev1.NodeCondition{Type: condition})
	}
	client, err := ClientsetFromEnv(cfg.KubeconfigPath)
	if err != nil {
		klog.V(2).InfoS("There is no client but what options give", "reason", err)
		return cfg
	}
	cfg.Client = client
	return cfg
}

// NewNode returns a node for a provider. Unless an option gives an EventRecorder, one goroutine
// waits for Events from then on, and ends with Run. Nothing else runs before Run. So a node that is
// not wanted any more is to be run once, with a context that has ended.
//
// newProvider is called after the options have run. It may change the Node to register until
// NewNode returns. If newProvider returns no NodeProvider, it may do so until the node is ready.
// Such a node becomes ready when its pods can run, without pings.
func NewNode(name string, newProvider NewProviderFunc, opts ...NodeOpt) (*Node, error) {
	cfg := defaultConfig(name)
	for _, o := range opts {
		if err := o(&cfg); err != nil {
			return nil, err
		}
	}
	switch _, _, err := net.SplitHostPort(cfg.HTTPListenAddr); {
	case err != nil:
		return nil, fmt.Errorf("HTTPListenAddr: %w", err)
	case cfg.Client == nil:
		return nil, errors.New("a client is required")
	}

	podInformers := informers.NewSharedInformerFactoryWithOptions(cfg.Client, cfg.InformerResyncPeriod, PodInformerFilter(name))
	otherInformers := informers.NewSharedInformerFactory(cfg.Client, cfg.InformerResyncPeriod)
	pods := podInformers.Core().V1().Pods()
	others := otherInformers.Core().V1()
	provider, nodeProvider, err := newProvider(ProviderConfig{
		Pods: pods.Lister(), ConfigMaps: others.ConfigMaps().Lister(), Secrets: others.Secrets().Lister(), Services: others.Services().Lister(),
		Node: &cfg.NodeSpec,
	})
	if err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	if cfg.routeAttacher != nil {
		cfg.routeAttacher(provider, cfg, pods.Lister())
	}

	n := &Node{
		ready: make(chan struct{}), done: make(chan struct{}),
		client: cfg.Client, informers: []informers.SharedInformerFactory{podInformers, otherInformers},
		listenAddr: cfg.HTTPListenAddr, handler: cfg.Handler, tlsConfig: cfg.TLSConfig, workers: cfg.NumWorkers,
	}
	if n.nodes, err = n.nodeController(nodeProvider, &cfg); err != nil {
		return nil, fmt.Errorf("node controller: %w", err)
	}
	n.pods, err = n.podController(node.PodControllerConfig{
		PodClient: cfg.Client.CoreV1(), PodInformer: pods, Provider: provider,
		ConfigMapInformer: others.ConfigMaps(), SecretInformer: others.Secrets(), ServiceInformer: others.Services(),
		SkipDownwardAPIResolution: cfg.SkipDownwardAPIResolution,
	}, &cfg)
	if err != nil {
		if n.events != nil {
			n.events.Shutdown()
		}
		return nil, err
	}
	return n, nil
}

func (n *Node) podController(config node.PodControllerConfig, cfg *NodeConfig) (*node.PodController, error) {
	config.EventRecorder = cfg.EventRecorder
	if config.EventRecorder == nil {
		n.events = record.NewBroadcaster()
		config.EventRecorder = n.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: path.Join(cfg.NodeSpec.Name, "pod-controller")})
	}
	for _, o := range cfg.PodControllerConfigOpts {
		if err := o(&config); err != nil {
			return nil, err
		}
	}
	pods, err := node.NewPodController(config)
	if err != nil {
		return nil, fmt.Errorf("pod controller: %w", err)
	}
	return pods, nil
}

// nodeController returns the node's controller. Without a NodeProvider, a naive one reports the
// node ready when its pods can run.
func (n *Node) nodeController(provider node.NodeProvider, cfg *NodeConfig) (*node.NodeController, error) {
	if provider == nil {
		naive := node.NewNaiveNodeProvider()
		provider, n.naive, n.spec = naive, naive, &cfg.NodeSpec
	}
	opts := []node.NodeControllerOpt{node.WithNodeEnableLeaseV1(NodeLeaseV1Client(cfg.Client), node.DefaultLeaseDuration)}
	if cfg.NodeStatusUpdateErrorHandler != nil {
		opts = append(opts, node.WithNodeStatusUpdateErrorHandler(cfg.NodeStatusUpdateErrorHandler))
	}
	return node.NewNodeController(provider, &cfg.NodeSpec, cfg.Client.CoreV1().Nodes(), opts...)
}
